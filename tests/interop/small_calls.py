"""Calls of einops, array-api-extra and array-api-compat with tensors."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import array_api_extra as xpx
import einops.array_api as einops
import numpy as np

import broadloom as bl
from tests.interop.calls import Calls, called, cube, matrix, vector


def _einops(name: str, *args: Any, **sizes: Any) -> Calls:
    def run(x: Any) -> Any:
        return getattr(einops, name)(x, *args, **sizes)

    return {name: called(run, cube)}


GIVES_TENSORS: dict[str, Calls] = {
    "einops.array_api": {
        **_einops("rearrange", "a (b c) d -> d a c b", c=3),
        **_einops("reduce", "a b c -> a c", "mean"),
        **_einops("repeat", "a b c -> a (b r) c", r=2),
        "pack": called(lambda x, y: einops.pack([x, y], "a * c")[0], cube, cube[:, 0]),
        "unpack": called(lambda x: einops.unpack(x, [(1,), (2,)], "a * c"), cube),
    },
    "array_api_extra": {
        "apply_where": called(lambda x: xpx.apply_where(x > 0, x, lambda t: t**0.5, fill_value=0.0), matrix),
        "argpartition": called(lambda x: x[xpx.argpartition(x, 3)[3]], vector),
        "at": called(lambda x: xpx.at(x)[x > 0].add(1.0, copy=True), matrix),
        "atleast_nd": called(lambda x: xpx.atleast_nd(x, ndim=3), matrix),
        "cov": called(xpx.cov, matrix),
        "create_diagonal": called(xpx.create_diagonal, vector),
        "expand_dims": called(lambda x: xpx.expand_dims(x, axis=(0, 2)), matrix),
        "isclose": called(xpx.isclose, matrix, matrix + 1e-9),
        "isin": called(xpx.isin, np.array([1, 2, 3]), np.array([2])),
        "kron": called(xpx.kron, matrix, matrix[:2]),
        "lazy_apply": called(lambda x: xpx.lazy_apply(np.sin, x, shape=x.shape, dtype=x.dtype, as_numpy=True), matrix),
        "nan_to_num": called(xpx.nan_to_num, np.array([1.0, np.nan, np.inf])),
        "nunique": called(xpx.nunique, np.array([1, 2, 1])),
        "one_hot": called(lambda x: xpx.one_hot(x, 3), np.array([0, 2, 1])),
        "pad": called(lambda x: xpx.pad(x, 2), matrix),
        "partition": called(lambda x: xpx.partition(x, 3)[3], vector),
        "setdiff1d": called(lambda x, y: bl.sort(bl.asarray(xpx.setdiff1d(x, y))), np.array([1, 2, 3]), np.array([2])),
        "sinc": called(xpx.sinc, matrix),
    },
    "array_api_compat": {
        "array_namespace": called(lambda x: compat.array_namespace(x).sum(x), matrix),
        "to_device": called(lambda x: compat.to_device(x, compat.device(x)), matrix),
    },
}
GIVES_ARRAYS: dict[str, Calls] = {}
