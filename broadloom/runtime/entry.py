"""The callable behind a compiled function: from a call's arguments to the specialisation that serves it.

What goes in: the plain function and a callable for calls that no specialisation serves. What comes out: an `Entry`
whose `call` takes the function's arguments: a builtin made from native code where the object layouts are known,
else a Python closure of the same meaning.

What holds: specialisations are tried in the order in which they were added; the chain is replaced as a whole, and
a call keeps the one it began with, so calls, additions and other threads do not disturb each other; the code of
a specialisation lives as long as its entry or a call in it. Use `type("Compiled", (Base,), {"__call__":
entry.call})()` for an object that is called without a Python frame in between.
"""

from __future__ import annotations

import ctypes
import os
import threading
from array import array
from collections.abc import Callable
from typing import Any

from broadloom.capture.sources import Frame
from broadloom.errors import CodegenError
from broadloom.runtime import entry_text, native, probe, python_entry, symbols
from broadloom.runtime.binding import Parameters, parameters_of
from broadloom.runtime.cache import ObjectCache
from broadloom.runtime.link import keep_forever, link
from broadloom.runtime.spec import EntrySpec
from broadloom.runtime.table import NotNative, Table, encode

OnMiss = Callable[[tuple[Any, ...], dict[str, Any]], Any]

_FASTCALL, _KEYWORDS = 0x80, 0x02
_LEVEL = 0


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definition: _MethodDef | None = None
# Additions to any entry: rare, short, and never in other hands in a child of `fork`.
_lock = threading.RLock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def prepare(store: ObjectCache | None = None) -> None:
    """Makes the native runtime and the native entry of this process, by way of the object cache if one is given.

    Without this call the first `Entry` makes them. Does nothing where the native entry cannot be used.
    """
    if not probe.mismatches():
        _method(store)


def _method(store: ObjectCache | None = None) -> _MethodDef:
    global _definition  # noqa: PLW0603 - one per process: functions refer to it for ever
    if _definition is None:
        with _lock:
            if _definition is None:
                _definition = _made(store)
    return _definition


def _made(store: ObjectCache | None) -> _MethodDef:
    runtime = native.runtime(store)
    addresses = {name: symbols.python_api(name) for name in entry_text.PYTHON_FUNCTIONS}
    addresses |= {name: symbols.python_data(name) for name in entry_text.PYTHON_OBJECTS}
    addresses |= {n: symbols.numpy_api()[n] for n in (*entry_text.NUMPY_FUNCTIONS, *entry_text.NUMPY_OBJECTS)}
    addresses |= {name: runtime.address(name) for name in ("bl_alloc", "bl_free", "bl_parallel_for")}
    image = native.compiled(entry_text.entry_text(), _LEVEL, store)
    library = keep_forever(link({"entry": image}, addresses))
    definition = _MethodDef(b"compiled", library.address("bl_entry"), _FASTCALL | _KEYWORDS, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # also during shutdown
    return definition


def _builtin(state: list[object]) -> Callable[..., Any]:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = make(ctypes.addressof(_method()), state, None)
    return made


def _header(parameters: Parameters, on_miss: OnMiss) -> tuple[bytes, tuple[object, ...]]:
    names = parameters.names
    words = {
        "PARAMS": len(names),
        "POSITIONAL": parameters.positional,
        "POSONLY": parameters.positional_only,
        "VARARGS": int(parameters.varargs is not None),
        "VARKEYWORDS": int(parameters.varkeywords is not None),
        "FUNCTION": id(parameters.function),
        "CODE": id(parameters.code),
        "ON_MISS": id(on_miss),
    }
    rows = [words[name] for name in entry_text.HEADER if name != "NAMES"] + [id(name) for name in names]
    return array("q", rows).tobytes(), (parameters, names, on_miss)


class Entry:
    """Serves the calls of one function.

    `on_miss(args, kwargs)` is called when no specialisation's guards hold; its result is the call's. `native`
    False forces the Python closure; None takes native code where `probe.mismatches()` is empty.
    """

    def __init__(self, function: Callable[..., Any], on_miss: OnMiss, *, native: bool | None = None) -> None:
        self.parameters = parameters_of(function)
        self._on_miss = on_miss
        self._specs: tuple[EntrySpec, ...] = ()
        self._tables: dict[EntrySpec, Table] = {}
        self._python_hits: dict[EntrySpec, int] = {}
        self.is_native = not probe.mismatches() if native is None else native
        self._state: list[object] = []
        if self.is_native:
            missed = self._missed
            header, keep = _header(self.parameters, missed)
            self._state += [header, _chain(()), keep]
            self.call: Callable[..., Any] = _builtin(self._state)
        else:
            self.call = self._python_call

    @property
    def specs(self) -> tuple[EntrySpec, ...]:
        """The specialisations, in the order in which they are tried."""
        return self._specs

    def add(self, spec: EntrySpec) -> None:
        """Adds a specialisation after the others."""
        self.replace((*self._specs, spec))

    def replace(self, specs: tuple[EntrySpec, ...]) -> None:
        """Takes these specialisations instead of the present ones; none begins anew."""
        with _lock:
            tables = {spec: self._tables.get(spec) or self._encoded(spec) for spec in specs}
            self._tables = {spec: table for spec, table in tables.items() if table is not None}
            self._specs = specs
            if self.is_native:
                self._state[1] = _chain(tuple(self._tables.values()))

    def _encoded(self, spec: EntrySpec) -> Table | None:
        if not self.is_native:
            return None
        try:
            return encode(spec, self.parameters)
        except NotNative:
            return None

    def hits(self, spec: EntrySpec) -> int:
        """How many calls a specialisation has served."""
        table = self._tables.get(spec)
        return self._python_hits.get(spec, 0) + (0 if table is None else table.hits.value)

    def serves_natively(self, spec: EntrySpec) -> bool:
        """Whether the native entry serves this specialisation."""
        return spec in self._tables

    def frame(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame | None:
        """What guards look at for a call, or None when the call does not fit the function's parameters."""
        return self.parameters.bind(args, kwargs)

    def execute(self, spec: EntrySpec, frame: Frame) -> Any:
        """Serves one call with a specialisation whose guards hold."""
        self._python_hits[spec] = self._python_hits.get(spec, 0) + 1
        return python_entry.execute(spec, frame)

    def _missed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The native entry calls a miss whatever it is not sure of, so Python looks once more.
        frame = self.frame(args, kwargs) if self._specs else None
        if frame is not None:
            for spec in self._specs:
                if python_entry.holds(spec, frame):
                    return self.execute(spec, frame)
        return self._on_miss(args, kwargs)

    def _python_call(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._missed(args, kwargs)


def _chain(tables: tuple[Table, ...]) -> tuple[object, ...]:
    words = array("q", [len(tables), *(table.address for table in tables)]).tobytes()
    return (words, *tables)


def self_test() -> str:
    """Calls the native entry once with no specialisation; the doctor's line. Raises `CodegenError` if it is wrong."""

    def probe_function(a: int, b: int = 2) -> int:
        return a + b

    entry = Entry(probe_function, lambda args, kwargs: (args, kwargs))
    if entry.call(1, b=3) != ((1,), {"b": 3}):
        raise CodegenError("the native entry hands arguments over wrongly")
    return "native" if entry.is_native else "Python: " + "; ".join(probe.mismatches())
