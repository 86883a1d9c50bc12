"""docs/dtypes.md says what the op table says."""

import runpy
from pathlib import Path

from broadloom.dtypes import ALL
from broadloom.ops.table import OPS

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "dtypes.md").read_text(encoding="utf-8")


def test_the_document_is_what_the_table_generates():
    text = runpy.run_path(str(ROOT / "tools" / "dtype_table.py"))["text"]()
    assert text == DOCUMENT, "write it again: python tools/dtype_table.py"


def test_every_op_has_a_line_of_marks():
    lines = {line.split("`")[1]: line.split("|")[2:-1] for line in DOCUMENT.splitlines() if line.startswith("| `")}
    assert set(lines) == set(OPS)
    for name, cells in lines.items():
        assert len(cells) == len(ALL)
        for dtype, cell in zip(ALL, cells, strict=True):
            assert (cell.strip() == "●") == (dtype not in OPS[name].empty)
            reason = OPS[name].empty.get(dtype)
            assert reason is None or f"\n{cell.strip()}. {reason}\n" in DOCUMENT
