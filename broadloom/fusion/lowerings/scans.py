"""Lowering of cumulative ops: along rows that lie in one piece to a kernel of its own, else to a stage that runs its
iterations in order."""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.fusion.boxes import Inlining, StorageBox, TensorBox, contiguous, flat_index
from broadloom.fusion.ir import Accumulator, Extern, Kernel, Layout, ReductionKind, Region, Stage
from broadloom.fusion.lower import MULTI_USE_COST, Lowering, loop_nest
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op
from broadloom.symbolic import floordiv, product, smax

FOLDS: dict[str, ReductionKind] = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
# Elements that a thread goes over twice while they lie in the cache; up to so many floats are added in order.
CHUNK = 8192
SHORT = 64  # elements of a row that is not worth a kernel of its own
_REASON = f"chunks of {CHUNK} elements on several threads, each begun with what those before it come to"


def lower_scan(state: Lowering, node: Node, ids: Sequence[ValueId], x: TensorBox) -> TensorBox:
    """cumsum, cumprod, cummax, cummin along one axis."""
    assert isinstance(node.op, Op)
    result = node.types[0]
    buffer = state.destination(ids[0], result.dtype, result.shape)
    if node.attributes["axis"] == -1 and _is_chunked(node.op.name, x):
        source = _rows(state, x)
        if source is not None and buffer.layout.strides[-1] == 1 and buffer.aligned:
            _call(state, node.op.name, source, Region(buffer.name, buffer.layout))
            return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))
    axis = len(x.shape) + node.attributes["axis"]
    outer, inner = (loop_nest([n if (k == axis) == scanned else 1 for k, n in enumerate(x.shape)], prefix)
                    for scanned, prefix in ((False, "i"), (True, "r")))  # fmt: skip
    index = tuple(inner[1][k] if k == axis else i for k, i in enumerate(outer[1]))
    accumulator = Accumulator(state.fresh("acc"), FOLDS[node.op.name], result.dtype, result.dtype)

    def body(ops: Inlining) -> None:
        running = ops.running(accumulator.name, x.load(ops, index), result.dtype)
        ops.store(buffer.name, flat_index(buffer.layout, index), running)

    stage = Stage(inner[0], state.record(body).body(), sequential=True)
    state.operations.append(Kernel(state.fresh("k"), outer[0], (stage,), (accumulator,), origins=(node.op.name,)))
    return TensorBox.whole(StorageBox(result.dtype, result.shape, None, buffer))


def _is_chunked(name: str, x: TensorBox) -> bool:
    """Whether rows are long enough, and their elements may be folded in another order: products of floats may not,
    since they leave the range of floats on the way."""
    exact = x.dtype.kind in "iu" or name in ("cummax", "cummin")
    if x.dtype.kind not in "iuf" or x.dtype.bits < 8 or not _has_registers(x.dtype) or not (exact or name == "cumsum"):
        return False
    least = SHORT if exact else CHUNK + 1
    return not isinstance(x.shape[-1], int) or x.shape[-1] >= least


def _has_registers(dtype: DType) -> bool:
    return dtype.kind in "iu" or dtype in (dtypes.float32, dtypes.float64)


def _rows(state: Lowering, x: TensorBox) -> Region | None:
    """The operand in memory, with rows in one piece. A sum of what is no array yet reads it twice: it is made first
    unless that takes longer than adding up one by one."""
    found = state.strided(x)
    if found is None:
        if x.dtype.kind in "iu" and x.storage.cost <= MULTI_USE_COST and isinstance(x.shape[-1], int):
            return None
        buffer = state.buffer(x.dtype, contiguous(x.shape))
        state.copy_to(x, buffer)
        found = buffer, buffer.layout
    buffer, layout = found
    if layout.strides[-1] != 1 or buffer.dtype is not x.dtype or not buffer.aligned:
        return None
    return Region(buffer.name, layout)


def _call(state: Lowering, name: str, source: Region, target: Region) -> None:
    """The kernel, and before it zeros in the memory through which chunks hand on."""
    shape = source.layout.shape
    links = product(shape[:-1]) * floordiv(smax(shape[-1], 1) - 1, CHUNK)
    words = state.buffer(dtypes.int64, contiguous((2 * links + 1,)))
    zero = dtypes.int64
    state.fill(words, words.layout, lambda ops, index: ops.literal(zero, bytes(8)), (name,))
    handed = Region(words.name, Layout(words.layout.shape, words.layout.strides))
    state.operations.append(Extern(state.fresh("s"), name, (source,), (target, handed), reason=_REASON))
