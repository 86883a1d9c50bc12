"""numpy.linalg and einsum under `vmap`, on its three roads."""

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import BroadloomError
from tests.transforms.roads import by_road

rng = np.random.default_rng(5)
SQUARE, TALL, VECTORS = (rng.standard_normal(s) for s in ((3, 4, 4), (3, 5, 4), (3, 5)))
CALLS = {
    "qr": (lambda a: np.linalg.qr(a, mode="complete")[1], TALL),
    "svd": (lambda a: np.linalg.svd(a).S, TALL),
    "eigh": (lambda a: np.linalg.eigh(a + a.T).eigenvalues, SQUARE),
    "eig": (lambda a: np.linalg.eig(a.astype(complex)).eigenvalues, SQUARE),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], SQUARE),
    "pinv": (lambda a: np.linalg.pinv(a), TALL),
    "rank": (lambda a: np.linalg.matrix_rank(a, 2.0), TALL),
    "cond": (lambda a: np.linalg.cond(a, 1), SQUARE),
    "norm": (lambda a: np.linalg.norm(a, 2), SQUARE),
    "hermitian": (lambda a: np.linalg.svd(a + a.T, hermitian=True).S, SQUARE),
    "least-squares": (lambda a, b: np.linalg.lstsq(a, b)[0], TALL, VECTORS),
    "residuals": (lambda a, b: np.linalg.lstsq(a, b)[1].sum(), TALL, VECTORS),
    "einsum": (lambda a, b: np.einsum("ij,i->j", a, b), TALL, VECTORS),
    "einsum-path": (lambda a, b: np.einsum("ij,kj,i", a, a, b, optimize=True), TALL, VECTORS),
    "diagonal": (lambda a: np.einsum("ii->i", a) + 1, SQUARE),
}


@by_road
@pytest.mark.parametrize("name", CALLS)
def test_each_example_has_its_own_result(vmap, name):
    f, *arrays = CALLS[name]
    want = np.stack([f(*(a[k] for a in arrays)) for k in range(3)])
    got = np.asarray(vmap(f)(*arrays))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@by_road
def test_what_depends_on_data_is_refused(vmap):
    with pytest.raises(BroadloomError, match=r"astype\(complex\)"):
        vmap(lambda a: np.linalg.eig(a)[0])(SQUARE)
    with pytest.raises(np.linalg.LinAlgError):
        vmap(lambda a: np.linalg.svdvals(a))(np.where(SQUARE[1, 2, 2] == SQUARE, np.nan, SQUARE))


@by_road
def test_eigenvalues_that_are_always_complex(vmap):
    got = np.asarray(vmap(lambda a: bl.linalg.eigvals(a + a.T))(SQUARE))
    assert got.dtype == np.complex128
    np.testing.assert_allclose(np.sort(got.real), np.linalg.eigvalsh(SQUARE + np.swapaxes(SQUARE, 1, 2)), atol=1e-9)
