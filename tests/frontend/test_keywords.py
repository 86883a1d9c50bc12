"""Keyword arguments of ufuncs, gufuncs and reductions, and the memory of their outputs: in the frontend, compiled, and
on tensors, as NumPy has it - outputs of several results, masks, axes, casts, orders, outputs that overlap inputs."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.frontend import Unsupported
from tests.frontend.harness import check, clone, compare, leaves, refused

A = (np.arange(1.0, 17).reshape(4, 4) % 7) + 0.25
B = np.asfortranarray(A[::-1] * 1.5)
O = np.zeros((4, 4))  # noqa: E741 - an output
T = np.arange(32.0).reshape(2, 4, 4)
CALLS: dict[str, Callable[..., Any]] = {
    "out": lambda np, a, b, o, t: np.add(a, b, out=o),
    "out in a tuple": lambda np, a, b, o, t: np.add(a, b, out=(o,)),
    "out by place": lambda np, a, b, o, t: np.add(a, b, o),
    "several outs": lambda np, a, b, o, t: np.divmod(a, 2, out=(o, b)),
    "several outs by place": lambda np, a, b, o, t: np.modf(a, o, b),
    "one of several outs": lambda np, a, b, o, t: (np.modf(a, out=(None, o)), np.divmod(b, 2, out=(o.T, None))),
    "an out that broadcasts the other": lambda np, a, b, o, t: np.modf(a[0], out=(None, o)),
    "frexp": lambda np, a, b, o, t: np.frexp(a, out=(o, None)),
    "where": lambda np, a, b, o, t: np.sqrt(a, out=o, where=b > 3),
    "where broadcast": lambda np, a, b, o, t: np.multiply(a, b, out=o, where=b[0] > 3),
    "where of several": lambda np, a, b, o, t: np.divmod(a, 2, out=(o, b), where=a > 2),
    "casting": lambda np, a, b, o, t: np.add(a, b, out=np.zeros((4, 4), np.int32), casting="unsafe"),
    "dtype": lambda np, a, b, o, t: (np.add(a, b, dtype=np.float32), np.true_divide(a, 2, dtype=np.complex128)),
    "signature": lambda np, a, b, o, t: np.add(a, b, signature=(np.float32, np.float32, None), casting="same_kind"),
    "order": lambda np, a, b, o, t: [np.add(a, b, order=k) for k in "CFK"],
    "order of one": lambda np, a, b, o, t: [np.negative(b, order=k) for k in "CFK"],
    "order of views": lambda np, a, b, o, t: [np.exp(t[0].T[::2], order=k) for k in "CFK"],
    "subok": lambda np, a, b, o, t: np.sin(a, subok=False),
    "mean in integers": lambda np, a, b, o, t: [
        np.mean(a - 9, axis=k, dtype="i8", where=w, keepdims=True) for k in (None, 0, 1) for w in (a > 3, True)
    ],
    "outer of a number": lambda np, a, b, o, t: [
        np.add.outer(1, a.astype(np.uint8)),
        np.multiply.outer(a.astype(np.int16), 70000),
        np.subtract.outer(a.astype(np.float32), 1.5),
        np.subtract.outer(a.astype(np.float32), np.float32(1.5)),
    ],
    "keepdims of a number": lambda np, a, b, o, t: np.median(a[0, 0], axis=None, keepdims=True),
    "insert": lambda np, a, b, o, t: [np.insert(np.arange(4, dtype=np.int8), 1, v) for v in (7, 2.9, a[1, :2])],
    "a broader out": lambda np, a, b, o, t: np.add(a[0], 1, out=t),
    "itself": lambda np, a, b, o, t: np.negative(a, out=a),
    "its transpose": lambda np, a, b, o, t: np.add(a, 1, out=a.T),
    "itself reversed": lambda np, a, b, o, t: np.multiply(a, a, out=a[::-1]),
    "shifted": lambda np, a, b, o, t: np.add(a[:-1], a[1:], out=a[1:]),
    "shifted back": lambda np, a, b, o, t: np.subtract(a[1:], a[:-1], out=a[:-1]),
    "a slice of itself": lambda np, a, b, o, t: np.sqrt(a[::2], out=a[1::2]),
    "a row for all": lambda np, a, b, o, t: np.add(a, a[0], out=a),
    "masked by itself": lambda np, a, b, o, t: np.negative(a, out=a, where=a > 3),
    "masked by its transpose": lambda np, a, b, o, t: np.add(a, 1, out=a, where=a.T > 3),
    "even and odd": lambda np, a, b, o, t: np.modf(b[:, :2], out=(a[:, ::2], a[:, 1::2])),
    "parts of itself": lambda np, a, b, o, t: np.divmod(a[0], a[1], out=(a[1], a[0])),
    "matmul": lambda np, a, b, o, t: np.matmul(a, b, out=o),
    "matmul into itself": lambda np, a, b, o, t: np.matmul(a, b, out=a),
    "matmul into its transpose": lambda np, a, b, o, t: np.matmul(a, a, out=a.T),
    "matmul axes": lambda np, a, b, o, t: np.matmul(t, a, axes=[(0, 1), (1, 0), (-1, 0)]),
    "matmul vectors": lambda np, a, b, o, t: (np.matmul(a[0], t, axes=[(0,), (-1, -2), (0,)]), np.matmul(a[0], b[1])),
    "matmul broadcast": lambda np, a, b, o, t: np.matmul(a, b, out=t),
    "vecdot axis": lambda np, a, b, o, t: (np.vecdot(a, b, axis=0), np.vecdot(t, a, axis=-2)),
    "vecdot keepdims": lambda np, a, b, o, t: (np.vecdot(a, b, keepdims=True), np.vecdot(t, a, axis=-2, keepdims=True)),
    "vecdot axes": lambda np, a, b, o, t: (
        np.vecdot(a, b, axes=[0, 1]),
        np.vecdot(t, a, axes=[(0,), (1,), ()][:0] or [1, 0]),
    ),
    "vecdot out": lambda np, a, b, o, t: np.vecdot(t, a[0], out=t[0, :2]),
    "vecdot broadcast": lambda np, a, b, o, t: np.vecdot(a, b[0], out=o),
    "matvec": lambda np, a, b, o, t: np.matvec(t, a[:2], axes=[(1, 2), 1, 0]),
    "matvec out": lambda np, a, b, o, t: np.matvec(a, a[0], out=a[0]),
    "vecmat": lambda np, a, b, o, t: np.vecmat(a, t[:, None], axes=[0, (-1, -2), -1]),
    "vecmat dtype": lambda np, a, b, o, t: np.vecmat(a[0], b, dtype=np.float32, casting="same_kind"),
    "reductions": lambda np, a, b, o, t: np.sum(t, axis=0, out=o, where=t > 3, initial=2),
    "a reduction into its operand": lambda np, a, b, o, t: np.add.reduce(a, axis=0, out=a[1]),
    "reductions kept": lambda np, a, b, o, t: np.max(t, axis=(0, 2), keepdims=True, out=t[:1, :, :1]),
    "means": lambda np, a, b, o, t: (np.mean(t, axis=0, out=o), np.var(a, axis=1, keepdims=True, dtype=np.float32)),
    "scans": lambda np, a, b, o, t: (np.cumsum(a, axis=0, out=a), np.cumprod(b, axis=1, dtype=np.float32)),
    "accumulate": lambda np, a, b, o, t: np.maximum.accumulate(a, axis=1, out=a.T),
    "positions": lambda np, a, b, o, t: np.argmax(t, axis=0, keepdims=True, out=np.zeros((1, 4, 4), np.int64)),
    "narrow positions": lambda np, a, b, o, t: np.argmin(a, axis=1, out=np.zeros(4, np.int32)),
    "pairs": lambda np, a, b, o, t: np.subtract.outer(a[0], b[1], out=o, dtype=np.float64),
    "rounding": lambda np, a, b, o, t: (np.round(a, 1, out=o), np.round(t[0].T[::2] * 1.3, 1), np.round(b, -1)),
    "rounding integers": lambda np, a, b, o, t: np.round(t[0].T[::2].astype(int, order="K"), -1),
    "joins": lambda np, a, b, o, t: np.concatenate([a[:2], b[2:]], out=a),
    "choice": lambda np, a, b, o, t: (np.choose(a.T > 3, [a, b], mode="clip"), np.clip(a, 2, 5, out=a.T)),
    "products": lambda np, a, b, o, t: (np.dot(a, b, out=o), np.outer(a[0], b[0], out=t[0])),
    "operators": lambda np, a, b, o, t: (a.__iadd__(a[::-1]), b.__imatmul__(a), o.T.__isub__(a)),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name: str) -> None:
    check(CALLS[name], A, B, O, T, exact=False)


def outcome(function: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
    given = [clone(x) for x in (A, B, O, T)]
    with np.errstate(all="ignore"):
        return leaves(function(*given)), given


def plain(x: Any) -> Any:
    return [plain(e) for e in x] if isinstance(x, (tuple, list)) else x.numpy() if isinstance(x, bl.Tensor) else x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("start", range(4))
def test_compiled(start: int, dynamic: bool) -> None:
    """Each call on arrays of its own, many in one compiled function."""
    chosen = [f for name, f in list(CALLS.items())[start::4] if not (dynamic and "order" in name)]

    def all_of_them(*arrays: Any) -> Any:
        return [f(np, *arrays[4 * k : 4 * k + 4]) for k, f in enumerate(chosen)]

    given = [clone(x) for _ in chosen for x in (A, B, O, T)]
    results = bl.compile(all_of_them, fullgraph=True, dynamic=dynamic)(*given)
    for k, (f, got) in enumerate(zip(chosen, results, strict=True)):
        want, after = outcome(lambda *xs, f=f: f(np, *xs))
        own = given[4 * k : 4 * k + 4]
        for a, e in zip([*leaves(got), *own], [*want, *after], strict=True):
            compare(a, e, False, True)
        shared = [[any(a is x for x in arrays) for a in found] for found, arrays in ((leaves(got), own), (want, after))]
        assert shared[0] == shared[1]


@pytest.mark.parametrize("name", CALLS)
def test_on_tensors(name: str) -> None:
    tensors = [bl.asarray(clone(x)) for x in (A, B, O, T)]
    got = leaves(plain(CALLS[name](np, *tensors)))
    want, after = outcome(lambda *xs: CALLS[name](np, *xs))
    for a, e in zip([*got, *(t.numpy() for t in tensors)], [*want, *after], strict=True):
        compare(np.asarray(a), np.asarray(e), False, True)


ERRORS: dict[str, tuple[type[Exception], Callable[..., Any]]] = {
    "an out that needs a reduction": (ValueError, lambda np, a, b, o, t: np.add(t, 1, out=o)),
    "a gufunc's out that needs one": (ValueError, lambda np, a, b, o, t: np.vecdot(a, b, out=np.empty(()))),
    "a narrow out": (ValueError, lambda np, a, b, o, t: np.matmul(t, a, out=o)),
    "core dims of an out": (ValueError, lambda np, a, b, o, t: np.matmul(a, b, out=np.empty((4, 5)))),
    "an out of one of several": (ValueError, lambda np, a, b, o, t: np.modf(t, out=(o, None))),
    "outs that do not fit": (ValueError, lambda np, a, b, o, t: np.modf(a[0], out=(a[:2], t[0]))),
    "a cast": (TypeError, lambda np, a, b, o, t: np.add(a, b, out=np.empty((4, 4), int))),
    "a cast by rule": (
        TypeError,
        lambda np, a, b, o, t: np.add(a, b, out=np.empty((4, 4), np.float32), casting="safe"),
    ),
    "positions as floats": (TypeError, lambda np, a, b, o, t: np.argmax(a, axis=0, out=np.empty(4))),
    "too few outs": (ValueError, lambda np, a, b, o, t: np.modf(a, out=(o,))),
    "twice out": (TypeError, lambda np, a, b, o, t: np.add(a, b, o, out=o)),
    "no mask": (TypeError, lambda np, a, b, o, t: np.add(a, b, out=o, where=a)),
    "a mask that is too large": (ValueError, lambda np, a, b, o, t: np.add(a, b, out=o, where=t > 1)),
    "keepdims of a product": (TypeError, lambda np, a, b, o, t: np.matmul(a, b, keepdims=True)),
    "axis of a product": (TypeError, lambda np, a, b, o, t: np.matmul(a, b, axis=0)),
    "axis and axes": (TypeError, lambda np, a, b, o, t: np.vecdot(a, b, axis=0, axes=[0, 0])),
    "axes that are no list": (TypeError, lambda np, a, b, o, t: np.vecdot(a, b, axes=(0, 0))),
    "too few axes": (ValueError, lambda np, a, b, o, t: np.matmul(a, b, axes=[(0, 1), (0, 1)])),
    "repeated axes": (ValueError, lambda np, a, b, o, t: np.matmul(a, b, axes=[(0, 0), (0, 1), (0, 1)])),
    "an axis that is not there": (ValueError, lambda np, a, b, o, t: np.vecdot(a, b, axis=2)),
    "a wrong order": (ValueError, lambda np, a, b, o, t: np.add(a, b, order="X")),
    "a read-only out": (ValueError, lambda np, a, b, o, t: np.add(a, 1, out=np.broadcast_to(a, (4, 4)))),
    "an insert that does not fit": (OverflowError, lambda np, a, b, o, t: np.insert(a[0].astype(np.int8), 1, 300)),
    "an operand of at": (ValueError, lambda np, a, b, o, t: np.add.at(a, 0, b[:1])),
    "a choice by numbers": (TypeError, lambda np, a, b, o, t: np.choose(a, [a, b], mode="clip")),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_numpy_refuses(name: str) -> None:
    kind, call = ERRORS[name]
    refused(call, A, B, O, T)
    for wrap in (lambda x: x, bl.asarray):
        given = [clone(x) for x in (A, B, O, T)]
        with pytest.raises(kind), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compiled code leaves the call to NumPy
            bl.compile(lambda *xs: call(np, *xs))(*given) if wrap is not bl.asarray else call(np, *map(wrap, given))
        for x, y in zip(given, (A, B, O, T), strict=True):
            assert np.array_equal(x, y)


# ---- random calls ----------------------------------------------------------------------------------------------------

VIEWS = """{0} {0} {0} {0}[::-1] {0}.T {0}[1:] {0}[:-1] {0}[:,::-1] {0}[0] {0}[:,0] {0}[...,None] {0}[None] {0}[:1]
{0}[:,:1] {0}[::2]"""
DTYPES = ["float32", "float64", "int64", "int32", "complex128", "bool", "int8", "float16", "uint8"]
SHAPES = ((4, 4), (4, 4), (4, 4), (3, 3), (1, 4), (4, 1), (4,), (2, 4, 4), (1, 1))
TESTS = ["isnan", "signbit", "logical_not", "greater", "equal", "logical_and"]  # results are bool
ONE = ["sqrt", "negative", "square", "absolute", "exp", "rint", "positive", "conjugate", "reciprocal", *TESTS[:3]]
TWO = ["add", "multiply", "subtract", "maximum", "floor_divide", "true_divide", "power", "remainder", *TESTS[3:]]
CORE = {
    "matmul": ("[(0,1),(0,1),(0,1)]", "[(-1,-2),(-2,-1),(-1,-2)]", "[(0,1),(1,0),(-1,0)]"),
    "vecdot": ("[0,0]", "[-1,-1,()]", "[(0,),(1,)]", "[0,0,0]"),
    "matvec": ("[(0,1),0,0]", "[(-1,-2),-1,-1]", "[(0,1),(0,),(0,)]"),
    "vecmat": ("[0,(0,1),0]", "[-1,(-1,-2),-1]", "[-1,(-2,-1),0]"),
}


def random_call(rng: random.Random) -> tuple[str, list[np.ndarray]]:
    """The text of a call with keyword arguments, and arrays."""
    arrays = []
    for _ in range(4):
        shape = rng.choice(SHAPES)
        array = (np.arange(1, 1 + int(np.prod(shape))) % 7).astype(rng.choice(DTYPES[:6])).reshape(shape)
        arrays.append(np.asfortranarray(array) if rng.random() < 0.3 else array)
    if rng.random() < 0.6:
        arrays[1:] = [a if rng.random() < 0.3 else (arrays[0] * 2).astype(a.dtype) for a in arrays[1:]]

    def view(names: str) -> str:
        return rng.choice(VIEWS.split()).format(rng.choice(names))

    def out() -> str:
        return view("abcd") if rng.random() < 0.85 else f"np.zeros({rng.choice(SHAPES)}, np.{rng.choice(DTYPES)})"

    name, count, results = rng.choice(
        [*((n, 1, 1) for n in ONE), *((n, 2, 1) for n in TWO), *((n, 2, 1) for n in [*CORE] * 3)]
        + [("modf", 1, 2), ("frexp", 1, 2), ("divmod", 2, 2)] * 2
    )
    words = []
    if rng.random() < 0.7:
        # into an output that is broader than the result NumPy writes while it reads: of a gufunc outputs are apart
        outs = [
            (view("d") if name in CORE else out()) if results == 1 or rng.random() < 0.7 else "None"
            for _ in range(results)
        ]
        words.append(f"out={outs[0]}" if results == 1 and rng.random() < 0.7 else f"out=({', '.join(outs)},)")
        # where NumPy casts an output it also casts, there and back, the elements that are not selected
        if name not in (*CORE, *TESTS) and "None" not in outs and rng.random() < 0.3:
            words.append(f"where={rng.choice(('True', 'd > 3', 'd[0] > 2', 'a > 2'))}")
    if rng.random() < 0.25:
        rules = ["no", "equiv", "safe", "same_kind"] if name in CORE else ["no", "equiv", "safe", "unsafe"]
        words.append(f"casting={rng.choice(rules)!r}")
    if rng.random() < 0.25:
        words.append(f"dtype=np.{rng.choice(DTYPES)}")
    if name not in CORE and rng.random() < 0.2:
        words.append(f"order={rng.choice('CFAK')!r}")
    if name in CORE and rng.random() < 0.3:
        words.append(f"axes={rng.choice(CORE[name])}")
    elif name == "vecdot" and rng.random() < 0.6:
        words.append(f"axis={rng.choice((0, -1, 1))}")
    if name == "vecdot" and rng.random() < 0.4:
        words.append(f"keepdims={rng.choice((True, False))}")
    rng.shuffle(words)
    return f"np.{name}({', '.join([*(view('abc') for _ in range(count)), *words])})", arrays


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_random_calls(part: int, request: pytest.FixtureRequest, seed: int) -> None:
    count = 3000 if request.config.getoption("--full") else 300
    for number in range(count):
        text, arrays = random_call(random.Random(seed + number))
        scope: dict[str, Any] = {}
        exec(f"def f(np, a, b, c, d):\n    return {text}", scope)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                scope["f"](np, *map(clone, arrays))
            except IndexError:
                continue  # no such view
            except (ValueError, TypeError):
                refused(scope["f"], *arrays)
                continue
        try:
            check(scope["f"], *arrays, exact=False)
        except Unsupported:
            continue  # which calls these are is the table's business, above
        except AssertionError as error:
            raise AssertionError(f"{text} of {[(x.dtype, x.shape, x.strides) for x in arrays]}: {error}") from error
