"""Ops of keyed random numbers: Philox, words to numbers, and the distributions that are loops.

What goes in: uint64 words - the two halves of a counter, a key - and float64 parameters. What comes out: words and
float64 numbers. All are pointwise: an element depends on its own counter and key alone, so the same key and position
give the same number in a loop of any length, on any number of threads, under any batching.

What holds: the reference kernels run the functions of `ops.portable` and `ops.rejection` on blocks of a NumPy array
that fit the cache; native code runs the same functions on vector registers, and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import ALL, DType, float64, uint32, uint64
from broadloom.errors import DTypeError
from broadloom.ops import portable, rejection, rules
from broadloom.ops.portable import Maths, State, Step, Value
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Signature
from broadloom.records import dataclass

BLOCK = 16384  # elements that a reference kernel works on at once


class NumPyMaths:
    """The handler of `ops.portable` for one-dimensional arrays."""

    def where(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    def equal(self, x: Array, y: float) -> Array:
        return np.equal(x, y)

    def right(self, x: Array, count: int) -> Array:
        return np.right_shift(x, np.uint64(count))

    def pattern(self, x: Array) -> Array:
        return x.view(np.uint64)

    def number(self, pattern: Array) -> Array:
        return pattern.view(np.float64)

    def sqrt(self, x: Array) -> Array:
        return np.sqrt(x)

    def floor(self, x: Array) -> Array:
        return np.floor(x)

    def like(self, x: Array, value: float) -> Array:
        return np.full_like(x, value)

    def loop(self, step: Step, args: State, state: State, waiting: Array, limit: int) -> State:
        """What waits is kept together, so that a step costs no more than what is left to do."""
        n = max(x.size for x in (*args, *state, waiting))
        result = tuple(np.array(np.broadcast_to(s, n)) for s in state)
        places = np.flatnonzero(np.broadcast_to(waiting, n))
        args, state = _taken(args, places), tuple(s[places] for s in result)
        for t in range(limit):
            if not places.size:
                break
            state, finished = step(self, np.full(places.size, t, np.uint64), args, state)
            for whole, part in zip(result, state, strict=True):
                whole[places] = part
            left = ~finished
            places, args, state = places[left], _taken(args, left), _taken(state, left)
        return result


def _taken(arrays: State, places: Array) -> State:
    """The elements at these places; an array of one element stands for all."""
    return tuple(a if a.size == 1 else a[places] for a in arrays)


NUMPY = NumPyMaths()


def blocked(function: Callable[..., Value], dtype: DType) -> Callable[..., Array]:
    """A reference kernel that runs `function(m, *arrays, **attributes)` on blocks of its broadcast operands. Operands
    of one element, such as a key, stay such: what depends on them alone is cheap."""

    def kernel(*arrays: Array, **attrs: Any) -> Array:
        result = np.empty(np.broadcast_shapes(*(a.shape for a in arrays)), dtype.numpy)
        single = [a.reshape(1) if a.size == 1 else None for a in arrays]
        modes: Any = [["readonly"]] * single.count(None) + [["writeonly"]]
        flags: Any = ["external_loop", "buffered", "zerosize_ok"]
        many = [a for a, one in zip(arrays, single, strict=True) if one is None]
        blocks = np.nditer([*many, result], flags, modes, buffersize=BLOCK)
        with blocks, np.errstate(all="ignore"):
            for block in blocks:
                *operands, out = block if isinstance(block, tuple) else (block,)
                if out.size:
                    rest = iter(operands)
                    given = (np.ascontiguousarray(next(rest)) if one is None else one for one in single)
                    out[...] = function(NUMPY, *given, **attrs)
        return result

    return kernel


# ---- the functions of the ops, for any handler -----------------------------------------------------------------------


def _philox(m: Maths, low: Value, high: Value, key: Value, *, word: int) -> Value:
    return portable.philox(m, low, high, key)[word]


def _unit(m: Maths, word: Value, *, positive: bool) -> Value:
    return portable.positive(m, word) if positive else portable.unit(m, word)


def _below(m: Maths, low: Value, high: Value, key: Value, count: Value) -> Value:
    return portable.below(m, *portable.philox(m, low, high, key), count)


def _normal(m: Maths, low: Value, high: Value, key: Value) -> Value:
    return portable.normal(m, *portable.philox(m, low, high, key))


def _sinpi(m: Maths, x: Value) -> Value:
    return portable.sinpi(m, x - m.floor(x * 0.5) * 2.0)


def _cospi(m: Maths, x: Value) -> Value:
    return portable.cospi(m, x - m.floor(x * 0.5) * 2.0)


@dataclass(frozen=True, slots=True)
class Entry:
    """An op: its function for any handler, operand dtypes, result dtype, the attributes of its samples; `looped`: it
    has a loop, whose native code is a function of its own."""

    function: Callable[..., Value]
    operands: tuple[DType, ...]
    result: DType
    doc: str
    attrs: tuple[Mapping[str, Any], ...] = ({},)
    low: float | None = None
    high: float | None = None
    looped: bool = False


_COUNTER = (uint64, uint64, uint64)
_LOOPED = "Its trials use the counters (index, stream + 0, 1, ...), stream a multiple of 2**32."

ENTRIES: dict[str, Entry] = {
    "philox": Entry(
        _philox, _COUNTER, uint64, "`philox(low, high, key)`: one 64-bit word of Philox4x32-10 of a 128-bit counter.",
        ({"word": 0}, {"word": 1}),
    ),
    "random_below": Entry(
        _below, (*_COUNTER, uint64), uint64,
        "`random_below(low, high, key, count)`: floor(x * count / 2**128), x the 128 bits of Philox; count 0 is 2**64.",
    ),
    "random_unit": Entry(
        _unit, (uint64,), float64,
        "A word as a number: its first 53 bits in [0, 1), or all of them in (0, 1] where `positive`.",
        ({"positive": False}, {"positive": True}),
    ),
    "random_normal": Entry(
        _normal, _COUNTER, float64, "`random_normal(low, high, key)`: a standard normal number by Box and Muller.",
    ),
    "random_gamma": Entry(
        rejection.gamma, (float64, *_COUNTER), float64,
        f"`random_gamma(shape, index, key, stream)`: a standard gamma number, shape from 1 on. {_LOOPED}",
        low=0.5, high=20.0, looped=True,
    ),
    "random_poisson": Entry(
        rejection.poisson, (float64, *_COUNTER), float64,
        f"`random_poisson(mean, index, key, stream)`: a Poisson number. {_LOOPED}", low=0.0, high=40.0, looped=True,
    ),
    "random_binomial": Entry(
        rejection.binomial, (float64, float64, *_COUNTER), float64,
        f"`random_binomial(trials, chance, index, key, stream)`: how many trials succeed. {_LOOPED}",
        low=0.0, high=1.0, looped=True,
    ),
    "random_vonmises": Entry(
        rejection.vonmises,
        (float64, *_COUNTER),
        float64,
        f"`random_vonmises(kappa, index, key, stream)`: an angle of von Mises' distribution around 0. {_LOOPED}",
        low=0.0,
        high=20.0,
        looped=True,
    ),
    "random_zipf": Entry(
        rejection.zipf,
        (float64, *_COUNTER),
        float64,
        f"`random_zipf(a, index, key, stream)`: a number of Zipf's distribution. {_LOOPED}",
        low=0.5,
        high=6.0,
        looped=True,
    ),
    "portable_log": Entry(portable.log, (float64,), float64, "log(x), the same bits everywhere.", low=0.0),
    "portable_log1p": Entry(portable.log1p, (float64,), float64, "log(1 + x), the same bits everywhere.", low=-1.0),
    "portable_exp": Entry(portable.exp, (float64,), float64, "e**x, the same bits everywhere."),
    "portable_expm1": Entry(portable.expm1, (float64,), float64, "e**x - 1, the same bits everywhere."),
    "portable_sinpi": Entry(_sinpi, (float64,), float64, "sin(pi*x), the same bits everywhere."),
    "portable_cospi": Entry(_cospi, (float64,), float64, "cos(pi*x), the same bits everywhere."),
}  # fmt: skip

_ONLY_WORDS = "counters and keys are words of 64 bits"
_ONLY_DOUBLE = "random numbers are computed in float64: cast the operand, and round the result"


def _rule(name: str, entry: Entry) -> rules.Rule:
    def rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        for given, wanted in zip(dtypes, entry.operands, strict=True):
            if given is not wanted:
                reason = _ONLY_WORDS if wanted is uint64 else _ONLY_DOUBLE
                raise DTypeError(f"{name}: {reason}", got=given, allowed=wanted.name)
        for attribute, choices in _choices(entry).items():
            rules.read_choice(name, attrs, attribute, *choices)
        return (entry.result,)

    return rule


def _choices(entry: Entry) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(attrs[name] for attrs in entry.attrs) for name in entry.attrs[0]}


def _record(name: str, entry: Entry) -> Op:
    principal = entry.operands[0]
    signature = Signature(((),) * len(entry.operands), ((),))
    reason = _ONLY_WORDS if principal is uint64 else _ONLY_DOUBLE
    return Op(
        name=name,
        doc=entry.doc,
        signature=lambda attrs: signature,
        result_dtypes=_rule(name, entry),
        reference=blocked(entry.function, entry.result),
        arity=len(entry.operands),
        attr_names=tuple(entry.attrs[0]),
        traits=frozenset({Trait.POINTWISE, Trait.EXPENSIVE}),
        samples=tuple(Sample(((),) * len(entry.operands), a, low=entry.low, high=entry.high) for a in entry.attrs),
        sample_dtypes=(entry.operands,),
        empty={d: reason for d in ALL if d is not principal},
    )


# ---- keys as arrays --------------------------------------------------------------------------------------------------


def _key_word(key: Array) -> Array:
    return np.ascontiguousarray(key).view(np.uint64)[..., 0]


def _word_key(word: Array) -> Array:
    return np.ascontiguousarray(word)[..., np.newaxis].view(np.uint32).reshape(*word.shape, 2)


def _conversion(
    name: str,
    reference: Callable[..., Array],
    signature: str,
    core: tuple[int, ...],
    dtypes: tuple[DType, DType],
    doc: str,
) -> Op:
    parsed = Signature.parse(signature)
    source, result = dtypes
    reason = f"{name} takes {source} alone, of which keys are made"

    def rule(given: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        if given[0] is not source:
            raise DTypeError(f"{name}: {reason}", got=given[0], allowed=source.name)
        return (result,)

    return Op(
        name=name,
        doc=doc,
        signature=lambda attrs: parsed,
        result_dtypes=rule,
        reference=reference,
        arity=1,
        traits=frozenset({Trait.CHEAP}),
        samples=(Sample((core,)),),
        sample_dtypes=((source,),),
        empty={d: reason for d in ALL if d is not source},
    )


CONVERSIONS = (
    _conversion(
        "key_word", _key_word, "(2)->()", (2,), (uint32, uint64), "A key of two words of 32 bits as one of 64."
    ),
    _conversion(
        "word_key", _word_key, "()->(2)", (), (uint64, uint32), "A word of 64 bits as a key: its halves, lower first."
    ),
)

OPS = (*(_record(name, entry) for name, entry in ENTRIES.items()), *CONVERSIONS)
