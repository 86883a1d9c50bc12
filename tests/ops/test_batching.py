"""The batching law: an op on stacked operands is the stack of the op on each, for every subset of operands.

A batched operand gets a new axis in front; an unbatched one stays as it is. Ranks are evened out by ones behind the
batch axis, nothing else is done: no attribute changes, and there is no rule for any op.
"""

from itertools import product

import numpy as np
import pytest

from broadloom.ops.infer import complete
from broadloom.ops.sampling import operands
from broadloom.ops.table import OPS
from tests.ops.comparing import assert_same, reorders

BATCH = 3


def padded(array, rank, batched):
    """Ones behind the batch axis, so that the unbatched part has `rank` dims."""
    front = 1 if batched else 0
    lack = rank - (array.ndim - front)
    return array.reshape(array.shape[:front] + (1,) * lack + array.shape[front:])


def batch(signature, arrays, batched):
    """The operands of the batched call."""
    ranks = signature.core_ranks(len(arrays))
    depths = [a.ndim - b for a, b in zip(arrays, batched, strict=True)]
    loop = max(0, *(d - r for d, r in zip(depths, ranks, strict=True)))
    return [padded(a, loop + r, b) if b else a for a, r, b in zip(arrays, ranks, batched, strict=True)]


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def check(op, sample, dtypes, loops, batched, rng):
    attrs = complete(op, sample.attrs)
    signature = op.signature(attrs)
    edges = not reorders(op)
    examples = [operands(sample, dtypes, rng, loops, edges=edges) for _ in range(BATCH)]
    columns = list(zip(*examples, strict=True))
    calls = [[c[k] if b else c[0] for c, b in zip(columns, batched, strict=True)] for k in range(BATCH)]
    stacked = [np.stack(c) if b else c[0] for c, b in zip(columns, batched, strict=True)]
    got = as_tuple(op.reference(*batch(signature, stacked, batched), **attrs))
    each = [as_tuple(op.reference(*call, **attrs)) for call in calls]
    for a, parts in zip(got, zip(*each, strict=True), strict=True):
        assert_same(op, a, np.stack(parts))


def fitting(op, sample, dtypes):
    """`bitcast` and `view_dtype` have samples for every target dtype: those of one width are used."""
    if op.name not in ("bitcast", "view_dtype"):
        return True
    return dtypes[0].itemsize == sample.attrs["dtype"].itemsize


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.samples[0].core_shapes], ids=str)
def test_op_of_stacked_is_stack_of_op(op, request, rng):
    full = request.config.getoption("--full")
    dtype_choices = op.sample_dtypes if full else op.sample_dtypes[:: max(1, len(op.sample_dtypes) // 4)]
    loop_choices = [((), ()), ((2,), ()), ((), (2,)), ((2, 1), (4,))]
    checked = 0
    for sample, dtypes in product(op.samples, dtype_choices):
        if not fitting(op, sample, dtypes):
            continue
        for batched in product((True, False), repeat=len(sample.core_shapes)):
            if any(batched):
                for loops in loop_choices if full or len(dtypes) > 1 else loop_choices[:2]:
                    check(op, sample, dtypes, loops, batched, rng)
                    checked += 1
    assert checked


def test_a_gather_batches_on_either_side():
    x = np.arange(24).reshape(2, 3, 4)
    i = np.array([[0, -1, 2], [1, 1, 0]])
    gather = OPS["gather"].reference
    both = gather(x.reshape(2, 1, 3, 4), i, axes=(-2,), core=2)
    assert np.array_equal(both, np.stack([x[k][i[k]] for k in range(2)]))
    only_x = gather(x.reshape(2, 1, 3, 4), i[0], axes=(-2,), core=2)
    assert np.array_equal(only_x, np.stack([x[k][i[0]] for k in range(2)]))
    only_i = gather(x[0], i, axes=(-2,), core=2)
    assert np.array_equal(only_i, np.stack([x[0][i[k]] for k in range(2)]))


def test_an_expand_of_a_lower_rank_batches():
    x = np.arange(6).reshape(2, 3)
    expand = OPS["expand"]
    (batched,) = batch(expand.signature({"shape": (4, 3)}), [x], [True])
    assert np.array_equal(expand.reference(batched, shape=(4, 3)), np.stack([np.broadcast_to(r, (4, 3)) for r in x]))
