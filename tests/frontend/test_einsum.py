"""numpy.einsum through the frontend: values, dtypes, memory order, views, and what NumPy refuses."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.frontend.table import FUNCTIONS
from tests.frontend.harness import Unsupported, check, record, refused

SQUARE = {
    "diagonal": "ii->i",
    "trace": "ii",
    "transpose": "ij->ji",
    "same": "ij->ij",
    "rows": "ij->i",
    "columns": "ij->j",
    "all": "ij->",
    "sorted": "ba",
    "ellipsis": "...j->...",
    "ellipsis-first": "i...->...i",
}
PAIRS = {
    "matmul": "ij,jk->ik",
    "implicit": "ij,jk",
    "reversed": "ij,jk->ki",
    "hadamard": "ij,ij->ij",
    "inner": "ij,ij->",
    "rows": "ij,ij->i",
    "columns": "ij,ij->j",
    "transposed": "ij,kj->ik",
    "outer": "ij,kl->ijkl",
    "mixed-outer": "ij,kl->kilj",
    "vector": "ij,jj->i",
    "lone-indices": "ij,kl->ik",
    "left-alone": "ij,kk->j",
    "diagonals": "ii,jj->ij",
    "ellipsis": "...j,j...->...",
    "spaces": " i j , j k -> i k ",
}
DTYPES = ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16"]


def matrix(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(-3 if np.dtype(dtype).kind in "ifc" else 0, 120 if dtype == "i1" else 5, shape)
    return (x + 1j * rng.integers(-3, 4, shape) if dtype.startswith("c") else x).astype(dtype)


@pytest.mark.parametrize("subscripts", SQUARE.values(), ids=SQUARE)
@pytest.mark.parametrize("optimize", [False, True])
def test_one_operand(subscripts: str, optimize: bool) -> None:
    for dtype in DTYPES:
        x = matrix(dtype, 3, 3)
        for a in (x, x.T, x[::-1, ::2][:, [0, 1, 1]], np.asfortranarray(x)):
            check(lambda np, a: np.einsum(subscripts, a, optimize=optimize), a, exact=dtype != "f2")


@pytest.mark.parametrize("subscripts", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("optimize", [False, True])
def test_two_operands(subscripts: str, optimize: bool) -> None:
    for dtype in DTYPES:
        x, y = matrix(dtype, 3, 3), matrix(dtype, 3, 3, seed=1)
        for a, b in ((x, y), (x.T, y), (x, y.T), (x.T, y.T), (x[::-1], y[:, ::-1]), (x, x)):
            check(lambda np, a, b: np.einsum(subscripts, a, b, optimize=optimize), a, b, exact=dtype != "f2")


def test_dtypes_are_promoted_and_cast() -> None:
    i1, i2, f4 = matrix("i1", 2, 3), matrix("i2", 3, 2), matrix("f4", 3, 2)
    check(lambda np, a, b, c: (np.einsum("ij,jk", a, b), np.einsum("ij,jk", a, c), np.einsum("ij,", a, 2)), i1, i2, f4)
    check(lambda np, a: (np.einsum("ij->i", a, dtype=np.int64), np.einsum("ij->ji", a, dtype=float)), i1)
    check(lambda np, a: np.einsum("ij->i", a, dtype=np.int8, casting="unsafe"), f4)
    check(lambda np, a: np.einsum("i,ij", [1, 2, 3], a), f4)
    refused(lambda np, a: np.einsum("ij->i", a, dtype=np.int8), f4)


def test_integers_wrap_in_their_own_dtype() -> None:
    x = np.full(3, 100, np.int8)
    check(lambda np, x: (np.einsum("i,i", x, x), np.einsum("i->", x), np.einsum("i,i,i", x, x, x, optimize=True)), x)


def test_axes_of_one_element_broadcast() -> None:
    check(lambda np, a, b: np.einsum("ij,ij->ij", a, b), np.ones((3, 2)), np.array([[0.0, 1.0]]))


@pytest.mark.parametrize("optimize", [False, True])
def test_axes_of_one_element_broadcast_in_products(optimize: bool) -> None:
    for dtype in ("f8", "i4", "?"):
        a, b = matrix(dtype, 1, 2, 3), matrix(dtype, 4, 3, 2)
        check(lambda np, a, b: np.einsum("bij,bjk->bik", a, b, optimize=optimize), a, b)
        check(lambda np, a, b: np.einsum("bij,bkj->ik", a, b[:, :, :1], optimize=optimize), a, b)
        check(lambda np, a, b: np.einsum("...ij,...jk", a, b, optimize=optimize), a, b)
        check(lambda np, a, b: np.einsum("bij,bjk->", a[:, :1], b[:1], optimize=optimize), a, b)


@pytest.mark.parametrize("optimize", [False, True, "greedy", "optimal", ("greedy", 4), ["einsum_path", (1, 2), (0, 1)]])
def test_three_operands(optimize: object) -> None:
    for dtype in ("f8", "i2", "?", "c16"):
        a, b, c = matrix(dtype, 2, 3), matrix(dtype, 3, 4, seed=1), matrix(dtype, 4, 2, seed=2)
        for text in ("ij,jk,kl->il", "ij,jk,ki", "ij,jk,kl", "ij,jk,kl->jl", "ij,jk,km->ijkm", "ij,jk,kl->"):
            check(lambda np, a, b, c, text=text: np.einsum(text, a, b, c, optimize=optimize), a, b, c)


def test_lists_of_ints() -> None:
    x, y = matrix("f8", 2, 3), matrix("f8", 3, 4)
    check(lambda np, x, y: (np.einsum(x, [0, 1], y, [1, 2]), np.einsum(x, [0, 1], y, [1, 2], [2, 0])), x, y)
    check(lambda np, x, y: (np.einsum(x, [..., 1], [1, ...]), np.einsum(x, [30, 1]), np.einsum(y, (0, 1), [])), x, y)


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_order(order: str) -> None:
    x, y = matrix("f8", 2, 3), matrix("f8", 3, 4)
    check(lambda np, x, y: np.einsum("ij,jk->ik", x, y, order=order), x, y)
    check(lambda np, x, y: np.einsum("ij,jk->ki", x.T.T, y, order=order, optimize=True), x, y)


def test_out() -> None:
    x, y = matrix("f8", 2, 3), matrix("f8", 3, 4)
    check(lambda np, x, y, out: np.einsum("ij,jk->ik", x, y, out=out), x, y, np.zeros((2, 4)))
    check(lambda np, x, y, out: np.einsum("ij->ji", x, out=out), x, y, np.zeros((3, 2)))
    check(lambda np, x, y, out: np.einsum("ij->", x, out=out), x, y, np.zeros(()))
    check(lambda np, x, out: np.einsum("ij->i", x, out=out, casting="same_kind"), x, np.zeros(2, "f4"))
    refused(lambda np, x, out: np.einsum("ij->i", x, out=out), x, np.zeros(2, "f4"))
    refused(lambda np, x, out: np.einsum("ij->", x, out=out), x, np.zeros(3))


def test_the_view_of_a_diagonal_is_written_through() -> None:
    def f(np, x):
        d = np.einsum("ii->i", x)
        d += 1
        np.einsum("ijj->ji", np.stack([x, x]))[0] = 5
        return d, np.einsum("ij->ji", x)

    check(f, matrix("f8", 3, 3))
    check(
        lambda np, x: (np.einsum("iij->ij", x), np.einsum("iji->ji", x[:, :2]), np.einsum("iii->i", x)),
        matrix("i4", 3, 3, 3),
    )


@pytest.mark.parametrize("optimize", [False, True])
def test_no_elements(optimize: bool) -> None:
    x, y = np.zeros((0, 3)), np.zeros((3, 0))
    check(lambda np, x, y: np.einsum("ij,jk->ik", y, x, optimize=optimize), x, y)
    check(lambda np, x, y: np.einsum("ij,jk->ik", x, y, optimize=optimize), x, y)
    check(lambda np, x, y: (np.einsum("ij->j", x), np.einsum("ij->", x), np.einsum("ij,ij->j", x, x)), x, y)


def test_an_array_without_elements_lends_no_order() -> None:
    empty, row = np.zeros((3, 0, 3)), np.ones(3)
    check(lambda np, x, y: np.einsum("dab,d->bd", x, y, optimize=True), empty, row)
    check(lambda np, x, y: np.einsum("d,dab->bd", y, x, optimize=True), empty, row)
    three = np.ones((1, 1, 3))
    check(lambda np, x, y, z: np.einsum(",d,dab,edb->bd", 2, y, x, z, optimize="optimal"), empty, row[:1], three)


def test_the_path_is_numpys() -> None:
    def f(np, a, b, c):
        path = np.einsum_path("ij,jk,kl->il", a, b, c)
        return np.einsum("ij,jk,kl->il", a, b, c, optimize=path[0]), path[1], path[0]

    check(f, matrix("f8", 2, 3), matrix("f8", 3, 40), matrix("f8", 40, 2))


def test_what_numpy_refuses() -> None:
    x = matrix("f8", 2, 3)
    for subscripts in (
        "ij->ii", "ij->z", "ijk", "i", "ij,jk", "i->i", "ii", "i..j", "...i...", "i1", "...->", "ij->...i->", "ij-i",
    ):  # fmt: skip
        with pytest.raises(ValueError):
            np.einsum(subscripts, x)
        refused(lambda np, x, s=subscripts: np.einsum(s, x), x)
    refused(lambda np, x: np.einsum("ij,jk", x, x), x)
    refused(lambda np, x: np.einsum("ij", x, foo=1), x)
    refused(lambda np, x: np.einsum(), x)
    refused(lambda np, x: np.einsum(x, [0, 60]), x)
    refused(lambda np, x: np.einsum("ij,jk,kl", x, x.T, x, optimize="best"), x)
    with pytest.raises(Unsupported):
        record(lambda np, x: np.einsum("ij->ji", x, casting="nonsense"), [x])
    assert np.einsum in FUNCTIONS and np.einsum_path in FUNCTIONS


def random_call(rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
    """Subscripts with repeated indices, axes of one and of no elements, and operands of mixed dtypes and orders."""
    letters = "abcdeA"[: rng.integers(1, 6)]
    sizes = {c: int(rng.choice([0, 1, 2, 3], p=[0.05, 0.2, 0.5, 0.25])) for c in letters}
    parts, arrays = [], []
    for _ in range(rng.integers(1, 5)):
        part = [str(c) for c in rng.choice(list(letters), rng.integers(0, 4))]
        shape = [sizes[c] if part.count(c) > 1 or rng.random() < 0.85 else 1 for c in part]
        axes = rng.permutation(len(part))
        x = matrix(str(rng.choice(["f8", "f8", "i4", "i1", "?", "c16", "f4"])), *(shape[a] for a in axes))
        arrays.append(x.transpose(np.argsort(axes)))
        parts.append("".join(part))
    used = sorted(set("".join(parts)))
    output = "".join(rng.permutation([c for c in used if rng.random() < 0.5]))
    return ",".join(parts) + ("->" + output if rng.random() < 0.8 else ""), arrays


def test_random_calls(rng: np.random.Generator) -> None:
    taken = 0
    while taken < 120:
        subscripts, arrays = random_call(rng)
        optimize = [False, True, "optimal"][taken % 3]
        try:
            np.einsum(subscripts, *arrays, optimize=optimize)
        except (ValueError, TypeError):
            continue
        taken += 1
        check(lambda np, *xs, s=subscripts, o=optimize: np.einsum(s, *xs, optimize=o), *arrays, exact=False)


@pytest.mark.parametrize("subscripts", ["bij,bkj->bik", "ij,kj->ik", "ij,jk->ki", "ij,jk->ik"])
def test_a_product_is_stored_where_its_result_lies(subscripts: str) -> None:
    sizes = {"b": 6, "i": 40, "j": 70, "k": 50}
    a, b = (
        np.random.default_rng(k).standard_normal([sizes[x] for x in term])
        for k, term in enumerate(subscripts.split("->")[0].split(","))
    )

    def f(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum(subscripts, a, b)

    compiled = bl.compile(f, fullgraph=True)
    got, want = compiled(a, b), f(a, b)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert got.strides == want.strides
    report = compiled.report()
    assert [k.kind for k in report.kernels] == ["matmul"] and not report.allocations


def test_sums_of_negative_zeros_are_zero() -> None:
    for subscripts in ("ij,jk->ik", "ij,j->i", "j,jk->k", "j,j->", "ij,ij->i", "i,i->i", "ij->i"):
        for n in (1, 2, 17, 70):
            terms = subscripts.split("->")[0].split(",")
            arrays = [np.full((n,) * len(t), -0.0 if k == 0 else 1.0) for k, t in enumerate(terms)]
            got = bl.compile(lambda *x, s=subscripts: np.einsum(s, *x), fullgraph=True)(*arrays)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(np.einsum(subscripts, *arrays)))
