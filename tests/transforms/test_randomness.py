"""Random numbers under `vmap`: keys of the examples, and keys that they share."""

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import TransformError
from tests.transforms.roads import ROADS

KEYS = bl.random.split(bl.random.key(3), 5).numpy()
SHARED = bl.random.key(9).numpy()
by_road = pytest.mark.parametrize("vmap", ROADS, ids=lambda f: f.__name__)


def draw(key, loc):
    return bl.random.normal(key, loc, size=4) + bl.random.uniform(bl.random.fold_in(key, 1), size=4)


def values(x):
    return np.asarray(x)


@by_road
def test_a_key_for_each_example_gives_the_bits_of_the_loop(vmap):
    want = [values(draw(bl.asarray(k), float(i))) for i, k in enumerate(KEYS)]
    assert values(vmap(draw)(KEYS, np.arange(5.0))).tobytes() == np.stack(want).tobytes()


@pytest.mark.parametrize("vmap", ROADS[:2], ids=lambda f: f.__name__)
def test_a_shared_key_is_refused(vmap):
    with pytest.raises(TransformError, match=r"a key that all examples share.*bl\.random\.split"):
        vmap(draw, in_axes=(None, 0))(SHARED, np.arange(5.0))


@by_road
def test_a_shared_key_gives_all_the_same_numbers(vmap):
    got = values(vmap(draw, in_axes=(None, 0), randomness="same")(SHARED, np.zeros(5)))
    assert got.tobytes() == np.stack([values(draw(bl.asarray(SHARED), 0.0))] * 5).tobytes()


@by_road
def test_a_shared_key_gives_each_its_own_numbers(vmap):
    got = values(vmap(draw, in_axes=(None, 0), randomness="different")(SHARED, np.zeros(5)))
    assert len(np.unique(got)) == got.size
    again = values(vmap(draw, in_axes=(None, 0), randomness="different")(SHARED, np.zeros(5)))
    assert again.tobytes() == got.tobytes()


def test_different_numbers_at_every_level():
    def core(x):
        return x + bl.random.random(SHARED, 3)

    inner = bl.vmap(core, randomness="different")
    got = {}
    for outer in ("different", "same"):
        got[outer] = values(bl.vmap(inner, randomness=outer)(np.zeros((4, 6))))
        compiled = bl.compile(bl.vmap(inner, randomness=outer), fullgraph=True)
        assert values(compiled(np.zeros((4, 6)))).tobytes() == got[outer].tobytes()
    assert len(np.unique(got["different"])) == 4 * 6 * 3
    assert len(np.unique(got["same"])) == 6 * 3
