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
    return HEAD + "\n\n".join(parts) + "\n" + PACKED_TEXT


PACKED_TEXT = """\

## Packed integers

`bl.uint1` to `bl.uint7` and `bl.int2` to `bl.int7` are no columns of the table: their tensors (`bl.PackedTensor`) lie
packed in bytes - element n in bits n * k to (n + 1) * k, the lowest first, whatever the shape - and are computed with
in uint8 or int8, modulo 2**k. `x.nbytes` is what they take. A compiled function unpacks, computes and packs in one
kernel. They are made by `bl.asarray(x, dtype=bl.uint3)`, `x.astype(bl.uint3)`, `bl.zeros(shape, dtype=bl.uint3)`.

- Sums, differences, products, powers, negation, shifts to the left and the like wrap around at the declared width.
  Division by 0 gives 0, and the lowest number divided by -1 itself, as for the other integers.
- Comparisons, bits, `min` and `max`, sorting, indexing, joining and reshaping are those of integers.
- `sum`, `prod`, `mean`, `argmax`, quotients, roots and all else that has another dtype than uint8 or int8 for these is
  what it is for them: `sum` is uint64 or int64, `x / y` float64, `np.sin(x)` float16.
- A function that would give uint8 or int8 by steps that do not keep to the width is refused by its name: cast first.
- Two packed dtypes promote to the narrowest that holds the values of both: uint3 and uint4 to uint4, uint3 and int3 to
  int4, uint7 and int7 to int8. Beside a wider integer dtype an unsigned one adds nothing (uint3 and int8: int8), a
  signed one counts as int8 (int3 and uint8: int16); beside floats and complexes they count as uint8 and int8; bool
  adds nothing.
- Python ints are weak: `x + 1` keeps the dtype, and an int out of its range is an OverflowError, except in comparisons,
  which are true to its value. Python floats make float64, as for other integers.
- Basic indexing, transposing and reshaping give views of the same bytes, at any offset.
- `np.asarray(x)` is a copy in uint8 or int8; `np.asarray(x, dtype=ml_dtypes.uint4)` and its like work both ways.
- A class of tensors with a layout of its own shows its arrays by `x.__tensor_flatten__()`, a tuple of arrays and the
  metadata, and is put together by `cls.__tensor_unflatten__(arrays, metadata)`.
"""


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
