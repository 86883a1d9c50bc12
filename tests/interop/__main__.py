"""`python -m tests.interop CLIENT`: the outcome of every call of a client, as JSON."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import warnings

from tests.interop.calls import Call, outcome


def tried(call: Call) -> str:
    try:
        return outcome(call)
    except Exception:  # noqa: BLE001  # whatever a client raises is its outcome
        return traceback.format_exc(limit=-3)


warnings.simplefilter("ignore")
module = importlib.import_module(f"tests.interop.{sys.argv[1]}_calls")
found = {
    kind: {client: {name: tried(call) for name, call in calls.items()} for client, calls in table.items()}
    for kind, table in (("tensors", module.GIVES_TENSORS), ("arrays", module.GIVES_ARRAYS))
}
json.dump(found, sys.stdout)
