"""Writes docs/dtypes.md: which op has a cell for which dtype, and why not where it has none.

What goes in: the op table. What comes out: the document's text; as a script, `python tools/dtype_table.py` writes it.
What holds: nothing of the table is written by hand, so the document is as true as the op table.
"""

from __future__ import annotations

from pathlib import Path

from broadloom.dtypes import ALL, DType
from broadloom.ops.record import Op
from broadloom.ops.table import OPS

DOCUMENT = Path(__file__).parent.parent / "docs" / "dtypes.md"

HEAD = """\
# Dtypes and ops

Written by `tools/dtype_table.py` from the op table; a test holds it to that.

A dot is a cell: the op runs in this dtype, its results rounded once (floats) or wrapped around (integers). A number is
the reason why there is no cell. That is no refusal of the NumPy function: where NumPy computes in another dtype, the
frontend casts to the one that NumPy's promotion chooses and calls the op in that. So `np.sin` of uint8 runs as `sin`
of float16, `np.sqrt` of int16 as `sqrt` of float32, and `np.mean` of int8 as `mean` of float64.

For an op with several operands the column is the dtype of the one that its meaning depends on (`where`: the two
choices, `take`: the array). Where an op makes an array, it is the dtype of that.

| short | dtype | short | dtype | short | dtype |
|---|---|---|---|---|---|
"""

SHORT = {"bool": "b", "bfloat16": "bf"}


def short(dtype: DType) -> str:
    """The column's name: kind and bytes, as NumPy's type strings."""
    return SHORT.get(dtype.name, f"{dtype.kind}{dtype.itemsize}")


def legend() -> list[str]:
    names = [f"{short(d)} | {d}" for d in ALL]
    third = -(-len(names) // 3)
    columns = [[*names[k : k + third], *(" | ",) * third][:third] for k in range(0, len(names), third)]
    return [f"| {' | '.join(row)} |" for row in zip(*columns, strict=True)]


def row(op: Op, reasons: dict[str, int]) -> str:
    """The op's line; `reasons` numbers the reasons in the order in which they appear."""
    cells = []
    for d in ALL:
        reason = op.empty.get(d)
        cells.append("●" if reason is None else str(reasons.setdefault(reason, len(reasons) + 1)))
    return f"| `{op}` | {' | '.join(cells)} |"


def text() -> str:
    """The whole document."""
    reasons: dict[str, int] = {}
    rows = [row(OPS[name], reasons) for name in sorted(OPS)]
    head = f"| op | {' | '.join(map(short, ALL))} |"
    rule = "|---|" + ":-:|" * len(ALL)
    listed = [f"{number}. {reason}" for reason, number in reasons.items()]
    parts = ["\n".join(legend()), "\n".join([head, rule, *rows]), "## Reasons\n\n" + "\n".join(listed)]
    return HEAD + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
