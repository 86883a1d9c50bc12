"""Every public function of NumPy is in the table or refused with a remedy; the tables are explicit and disjoint."""

from __future__ import annotations

import types

import numpy as np
import pytest

from broadloom.frontend import ATTRIBUTES, FUNCTIONS, METHODS, REFUSED, REFUSED_METHODS, Unsupported, ufunc_method
from broadloom.frontend.table import UFUNCS
from tests.frontend.harness import Namespace, record


def public(module: types.ModuleType) -> dict[str, object]:
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        if callable(value) and not name.startswith("_") and not isinstance(value, type):
            found[name] = value
    return found


@pytest.mark.parametrize("module", [np, np.linalg, np.fft], ids=lambda m: m.__name__)
def test_every_public_function_is_decided(module: types.ModuleType) -> None:
    undecided = [name for name, f in public(module).items() if f not in FUNCTIONS and f not in REFUSED]
    assert undecided == []


def test_every_ufunc_is_decided() -> None:
    for name, f in public(np).items():
        if isinstance(f, np.ufunc):
            assert f in FUNCTIONS or f in REFUSED, name


def test_every_method_and_attribute_is_decided() -> None:
    decided = {*METHODS, *ATTRIBUTES, *REFUSED_METHODS}
    assert [n for n in dir(np.ndarray) if not n.startswith("_") and n not in decided] == []
    assert not set(METHODS) & set(REFUSED_METHODS)
    assert not set(ATTRIBUTES) & set(REFUSED_METHODS)
    assert not set(METHODS) & set(ATTRIBUTES)


def test_no_function_is_both_taken_and_refused() -> None:
    assert [f for f in REFUSED if f in FUNCTIONS] == []


def test_remedies_are_sentences_for_the_user() -> None:
    for text in (*REFUSED.values(), *REFUSED_METHODS.values()):
        assert len(text.split()) >= 3


def test_scalar_types_are_entries() -> None:
    for t in (np.float32, np.float64, np.int8, np.uint64, np.bool, np.complex64, np.float16):
        assert t in FUNCTIONS


def test_ufunc_methods_refuse_by_name() -> None:
    for u in UFUNCS:
        for name in ("reduce", "accumulate", "outer", "at"):
            assert name in ufunc_method(u, name).name
    with pytest.raises(Unsupported, match="reduceat"):
        ufunc_method(np.add, "reduceat")


def test_refusals_name_the_call_and_the_remedy() -> None:
    x = np.arange(4.0)
    for f, name in (
        (lambda np, x: x.sum(foo=1), "foo"),
        (lambda np, x: np.add(x), "add"),
        (lambda np, x: np.pad(x, 1, "median"), "median"),
        (lambda np, x: x.reshape(3), "reshape"),
    ):
        with pytest.raises(Unsupported, match=name) as error:
            record(f, [x])
        assert error.value.remedy


def test_namespace_of_the_harness_uses_the_table() -> None:
    with pytest.raises(Unsupported):
        record(lambda np, x: np.unique(x), [np.arange(3)])
    assert isinstance(Namespace, type)
