"""Philox4x32-10 gives the words of its known-answer vectors, in NumPy and in native code."""

import numpy as np
import pytest

import broadloom.random as R
from broadloom.frontend import random as entries
from broadloom.ops.table import OPS
from tests.codegen.loops import Case, compile_loops
from tests.ops.random_oracles import two_words
from tests.random.programs import native

# Counter, key and result, from the known-answer file of the authors' Random123.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    """Pairs of 32-bit words, the first in the lower bits."""
    found = [int(w, 16) for w in text.split()]
    return [np.uint64(low | high << 32) for low, high in zip(found[::2], found[1::2], strict=True)]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter, key, result):
    (low, high), (k,) = words(counter), words(key)
    got = [OPS["philox"].reference(*map(np.asarray, (low, high, k)), word=n)[()] for n in (0, 1)]
    assert got == words(result)
    assert list(two_words(int(low), int(high), int(k))) == [int(w) for w in words(result)]


def test_known_answers_in_native_code():
    op = OPS["philox"]
    loops = compile_loops([Case("philox", op.sample_dtypes[0], op.sample_dtypes[0][0], {"word": n}) for n in (0, 1)])
    counters, keys, results = ([words(row[k]) for row in KNOWN] for k in range(3))
    operands = [np.array([c[0] for c in counters]), np.array([c[1] for c in counters]), np.array([k[0] for k in keys])]
    for n, loop in enumerate(loops):
        assert loop(*operands).tolist() == [int(r[n]) for r in results]


def test_element_i_takes_counter_i():
    """The layout of counters is part of the interface: keys and positions give these words for ever."""
    key = R.key(0x299F31D0A4093822)
    expected = [two_words(i, 0, 0x299F31D0A4093822)[0] for i in range(6)]
    assert R.bits(key, (2, 3)).numpy().ravel().tolist() == expected
    assert native(entries.bits, {"key": key.numpy()}, size=(6,)).tolist() == expected


def test_keys():
    assert R.key(0).numpy().tolist() == [0, 0]
    assert R.key(2**32 + 5).numpy().tolist() == [5, 1]
    assert R.key(-1).numpy().tolist() == [2**32 - 1, 2**32 - 1]
    assert R.key(2**64 - 1).numpy().dtype == np.uint32
    assert R.key(np.array([3, 2**40])).numpy().tolist() == [[3, 0], [0, 256]]
    assert R.key(np.int8(-1)).numpy().tolist() == R.key(-1).numpy().tolist()
    assert native(entries.key, {"seed": np.array(-7)}).tolist() == R.key(-7).numpy().tolist()


def test_split_and_fold_in():
    key = R.key(12)
    word = 12
    split = [two_words(i, 0xFFFFFFFF << 32, word)[0] for i in range(3)]
    assert R.split(key, 3).numpy().tolist() == [[w & 0xFFFFFFFF, w >> 32] for w in split]
    assert R.split(key).shape == (2, 2) and R.split(key, (2, 5)).shape == (2, 5, 2) and R.split(key, 0).shape == (0, 2)
    assert R.split(key, (2, 2)).numpy().reshape(4, 2).tolist() == R.split(key, 4).numpy().tolist()
    fold = two_words(9, 0xFFFFFFFE << 32, word)[0]
    assert R.fold_in(key, 9).numpy().tolist() == [fold & 0xFFFFFFFF, fold >> 32]
    many = R.fold_in(key, np.array([[9, -4]])).numpy()
    assert many.shape == (1, 2, 2)
    assert many[0, 0].tolist() == R.fold_in(key, 9).numpy().tolist()
    assert many[0, 1].tolist() == R.fold_in(key, -4).numpy().tolist() == R.fold_in(key, 2**64 - 4).numpy().tolist()
    assert native(entries.split, {"key": key.numpy()}, n=3).tolist() == R.split(key, 3).numpy().tolist()
    assert native(entries.fold_in, {"key": key.numpy(), "data": np.int32([-4])}).tolist() == many[0, 1:].tolist()


def test_keys_do_not_collide():
    made = [R.split(R.key(0), 100_000), R.split(R.key(1), 100_000), R.fold_in(R.key(0), np.arange(100_000))]
    keys = np.concatenate([k.numpy() for k in made])
    assert len(np.unique(keys.view(np.uint64))) == 300_000
