"""Lowering of linear algebra on many small matrices to kernels of our own, which read and write in any strides."""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.errors import VerifyError
from broadloom.fusion.boxes import StorageBox, TensorBox
from broadloom.fusion.ir import Extern, Region
from broadloom.fusion.lower import Lowering
from broadloom.fusion.lowerings.sorting import broadcast_loop, strided_region
from broadloom.graph.ir import Node, ValueId
from broadloom.ops.record import Op
from broadloom.passes.small_matrices import FEW, Choice, Lanes, choose
from broadloom.symbolic import Size, product


def choice_of(shape: Sequence[Size], matrices: Sequence[TensorBox]) -> Choice:
    """How the matrices that lead to a result of this shape are treated."""
    return choose(product(shape[:-2]), [n for x in matrices for n in x.shape[-2:]])


def lower_whole(state: Lowering, node: Node, ids: Sequence[ValueId], *operands: TensorBox) -> tuple[TensorBox, ...]:
    """solve, inv, det and slogdet, of which the pass `decompose` has left those of many small matrices."""
    assert isinstance(node.op, Op)
    # The number of matrices may have come out as a small one since the pass left the op whole; that changes nothing.
    count = product(operands[0].shape[:-2])
    choice = choose(max(count, FEW) if isinstance(count, int) else count, [n for x in operands for n in x.shape[-2:]])
    if not isinstance(choice, Lanes):
        raise VerifyError("no lowering for op", got=node.op.name, remedy="decompose it before lowering")
    raises = node.op.name in ("solve", "inv")
    return lower_beside(state, node, ids, f"lanes_{node.op.name}", operands, choice, raises=raises)


def lower_beside(
    state: Lowering,
    node: Node,
    ids: Sequence[ValueId],
    routine: str,
    operands: Sequence[TensorBox],
    choice: Lanes,
    *,
    raises: bool = False,
    **attrs: object,
) -> tuple[TensorBox, ...]:
    """The step of `codegen.lanes.step` that makes all results of an op."""
    assert isinstance(node.op, Op)
    cores, made_cores = _core_ranks(routine)
    loop = node.types[0].shape[: len(node.types[0].shape) - made_cores[0]]
    given = [strided_region(state, x) for x in operands]
    read = tuple(Region(r.buffer, broadcast_loop(r.layout, loop, c)) for r, c in zip(given, cores, strict=True))
    buffers = [state.destination(i, t.dtype, t.shape) for i, t in zip(ids, node.types, strict=True)]
    site = state.site("linalg", node) if raises else -1
    attrs |= {"dtype": operands[0].dtype, "memory": state.site("memory", node)}
    results = tuple(Region(buffer.name, buffer.layout) for buffer in buffers)
    step = Extern(state.fresh("x"), routine, read, results, tuple(sorted(attrs.items())), site, str(choice))
    state.operations.append(step)
    return tuple(
        TensorBox.whole(StorageBox(t.dtype, t.shape, None, buffer))
        for t, buffer in zip(node.types, buffers, strict=True)
    )


def _core_ranks(routine: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many core axes the operands and the results have."""
    match routine:
        case "lanes_det" | "lanes_slogdet":
            return (2,), (0, 0)
        case "lanes_eigvalsh":
            return (2,), (1,)
        case "lanes_eigh":
            return (2,), (1, 2)
        case "lanes_lu":
            return (2,), (2, 1)
        case "lanes_lu_solve":
            return (2, 1, 2), (2,)
        case "lanes_solve" | "lanes_trsm" | "lanes_matmul":
            return (2, 2), (2,)
    return (2,), (2,)
