"""The entry in Python: what the native entry does, readable, and the reference it is tested against.

What goes in: an `EntrySpec` and a frame. What comes out: the result of the call. It serves where the native entry
cannot: the probe of object layouts failed, the build has no GIL, or a call is out of the ordinary.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from broadloom.capture.recipe import rebuild
from broadloom.capture.sources import Frame
from broadloom.errors import CodegenError
from broadloom.runtime import context, native
from broadloom.runtime.context import ArrayRecord
from broadloom.runtime.results import result_array
from broadloom.runtime.spec import EntryInput, EntrySpec

# The types of a module's functions, made once: a type for each call would cost more than the call.
_PLAN = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_RUN_HOLDING = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_RUN_RELEASING = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def holds(spec: EntrySpec, frame: Frame) -> bool:
    """Whether all guards of a specialisation hold in `frame`."""
    return all(guard.check(frame) for guard in spec.guards)


def execute(spec: EntrySpec, frame: Frame) -> Any:
    """Runs a specialisation whose guards hold and rebuilds the result.

    Raises IndexError, LinAlgError, ValueError, MemoryError as the module reports them.
    """
    values = [_value(i, i.source.fetch(frame)) for i in spec.inputs]
    inputs = _Records(values)
    outputs = [
        result_array(shape, output.dtype.numpy, output.order)
        for shape, output in zip(_planned_shapes(spec, inputs), spec.outputs, strict=True)
    ]
    filled = _Records(outputs)
    ctx = native.new_context(spec.threads)
    elements = sum(x.size for x in (*values, *outputs))
    releases = spec.release_elements is not None and elements >= spec.release_elements
    run = (_RUN_RELEASING if releases else _RUN_HOLDING)(spec.library.address(spec.run))
    code = run(ctypes.addressof(ctx), inputs.address, filled.address)
    if code:
        raise context.exception(spec.sites, code, ctx.site, list(ctx.payload))
    symbols = {symbol: source.fetch(frame) for symbol, source in spec.symbols}
    return rebuild(spec.recipe, outputs, frame, symbols)


class _Records:
    """The `bl_array` records of NumPy arrays; valid while this object and the arrays live."""

    def __init__(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        self._lengths = [(ctypes.c_int64 * (2 * x.ndim))(*x.shape, *x.strides) for x in arrays]
        records = []
        for x, lengths in zip(arrays, self._lengths, strict=True):
            start = ctypes.addressof(lengths)
            records.append(ArrayRecord(x.ctypes.data, x.ndim, 0, start, start + 8 * x.ndim))
        self._records = (ArrayRecord * max(1, len(records)))(*records)
        self.address = ctypes.addressof(self._records)


def _value(wanted: EntryInput, value: Any) -> np.ndarray[Any, Any]:
    if wanted.kind == "array":
        array: np.ndarray[Any, Any] = value
        return array
    return np.array(value, np.int64 if wanted.kind == "size" else wanted.dtype.numpy)


def _planned_shapes(spec: EntrySpec, inputs: _Records) -> list[tuple[int, ...]]:
    lengths = [(ctypes.c_int64 * (2 * o.ndim))() for o in spec.outputs]
    records = (ArrayRecord * max(1, len(lengths)))()
    for record, output, room in zip(records, spec.outputs, lengths, strict=False):
        start = ctypes.addressof(room)
        record.ndim, record.shape, record.strides = output.ndim, start, start + 8 * output.ndim
    plan = _PLAN(spec.library.address(spec.plan))
    code = plan(inputs.address, ctypes.addressof(records))
    if code:
        raise plan_failure(spec, code)
    return [tuple(room[: o.ndim]) for o, room in zip(spec.outputs, lengths, strict=True)]


def plan_failure(spec: EntrySpec, code: int) -> CodegenError:
    """The error for a module that could not compute its output shapes."""
    return CodegenError(f"the compiled module of {spec.name} could not plan its outputs", got=f"code {code}")
