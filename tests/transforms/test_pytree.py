"""Containers of arrays: taken apart, put together, and prefixes of them."""

from collections import namedtuple

import pytest

from broadloom.errors import TransformError
from broadloom.transforms.pytree import broadcast_prefix, flatten, unflatten

Pair = namedtuple("Pair", "a b")
TREES = [1, None, (), [], {}, (1, [2, {"x": 3, "a": (None, 4)}]), Pair(1, [Pair(2, 3)]), {"b": 1, "a": 2}]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_round_trip(tree):
    leaves, structure = flatten(tree)
    again = unflatten(leaves, structure)
    assert again == tree and type(again) is type(tree)
    assert structure.leaves == len(leaves)


def test_dicts_keep_their_order():
    leaves, structure = flatten({"b": 1, "a": 2})
    assert leaves == [1, 2] and list(unflatten(leaves, structure)) == ["b", "a"]


def test_prefixes():
    _, structure = flatten((1, {"x": 2, "y": [3, 4]}, None))
    assert broadcast_prefix(0, structure, "in_axes") == [0, 0, 0, 0]
    assert broadcast_prefix((0, {"y": 1, "x": None}, None), structure, "in_axes") == [0, None, 1, 1]
    assert broadcast_prefix([None, 2, 0], structure, "in_axes") == [None, 2, 2, 2]


@pytest.mark.parametrize("prefix", [(0,), (0, {"x": 1}, 0), ((0, 1), 0, 0), {"x": 0}], ids=repr)
def test_a_prefix_that_does_not_fit(prefix):
    _, structure = flatten((1, {"x": 2, "y": [3, 4]}, None))
    with pytest.raises(TransformError, match="in_axes"):
        broadcast_prefix(prefix, structure, "in_axes")
