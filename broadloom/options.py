"""The options of a compilation: one frozen value, parsed once from the environment and passed down.

What goes in: an environment mapping and the `options={...}` of `bl.compile`. What comes out: an `Options` in which
every field has the right type and lies in its bounds. What holds: nonsense is an `OptionsError` that names the
variable, the value, what is allowed and the remedy; no other module reads a BROADLOOM_ variable.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from broadloom import platform
from broadloom.errors import OptionsError
from broadloom.records import dataclass

LOG_TOPICS = frozenset(
    {
        "allocations",
        "breaks",
        "cache",
        "compiles",
        "fusion",
        "graphs",
        "guards",
        "kernels",
        "passes",
        "recompiles",
        "skips",
    }
)
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Options:
    """What a compilation may be told.

    `trace_dir`, `dump_dir`: folders for event files and for stage dumps, or None. `logs`: topics printed to stderr.
    `cache_dir`: where compiled objects live. `num_threads`: threads of a parallel kernel, and of a library call.
    `contract`: fuse a product with the sum that alone reads it, rounding once, where the machine can. `deterministic`:
    forbid library calls whose bits depend on the thread count. `release_gil_us`: estimated work, in microseconds, above
    which the GIL is released.
    `max_specialisations`: compiled versions kept for one function. `fusion`: False leaves every op a kernel of its own.
    `use_cache`: read and write `cache_dir`.

    Raises OptionsError when a field has a wrong type or value.

    >>> Options(num_threads=2).replace(contract=True).contract
    True
    """

    trace_dir: Path | None = None
    logs: frozenset[str] = frozenset()
    dump_dir: Path | None = None
    cache_dir: Path = field(default_factory=lambda: platform.default_cache_dir(os.environ))
    num_threads: int = field(default_factory=platform.cpu_count)
    contract: bool = False
    deterministic: bool = False
    release_gil_us: float = 100.0
    max_specialisations: int = 8
    fusion: bool = True
    use_cache: bool = True

    def __post_init__(self) -> None:
        for name, check in _FIELDS.items():
            value = getattr(self, name)
            converted = check.convert(value)
            if converted is None:
                raise OptionsError(
                    f"the option {name} has a wrong value", got=repr(value), allowed=check.allowed, remedy="correct it"
                )
            object.__setattr__(self, name, None if converted is _NOTHING else converted)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Options:
        """The options that the BROADLOOM_ variables of `environ` ask for; an empty variable counts as not set.

        Raises OptionsError for an unknown BROADLOOM_ variable and for a value that is not allowed.

        >>> Options.from_environment({"BROADLOOM_NUM_THREADS": "3"}).num_threads
        3
        """
        found: dict[str, Any] = {"cache_dir": platform.default_cache_dir(environ)}
        for variable in sorted(v for v in environ if v.startswith("BROADLOOM_")):
            if variable not in VARIABLES:
                raise OptionsError(
                    f"unknown environment variable {variable}",
                    got=repr(environ[variable]),
                    allowed=", ".join(VARIABLES),
                    remedy=_did_you_mean(variable, VARIABLES, "unset it"),
                )
            if not environ[variable].strip():
                continue
            name, parse = VARIABLES[variable]
            value = parse(environ[variable].strip())
            if value is None or _FIELDS[name].convert(value) is None:
                raise OptionsError(
                    f"the environment variable {variable} has a wrong value",
                    got=repr(environ[variable]),
                    allowed=_FIELDS[name].allowed,
                    remedy=_remedy(name, environ[variable], variable),
                )
            found[name] = value
        return cls(**found)

    def replace(self, **changes: object) -> Options:
        """These options with some changed, as `bl.compile(options={...})` asks.

        Raises OptionsError for an unknown name and for a value of the wrong type or out of bounds.
        """
        for name in changes:
            if name not in _FIELDS:
                raise OptionsError(
                    f"unknown option {name}",
                    got=repr(changes[name]),
                    allowed=", ".join(_FIELDS),
                    remedy=_did_you_mean(name, _FIELDS, "remove it"),
                )
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # checked in __post_init__

    def key(self) -> str:
        """The part that changes what is generated, for the key of the object cache.

        >>> Options(contract=True).key()
        'contract=True deterministic=False fusion=True'
        """
        return f"contract={self.contract} deterministic={self.deterministic} fusion={self.fusion}"


# ---- the checks -------------------------------------------------------------------------------------------------

_NOTHING = object()  # converted to None, which here means "refused"


@dataclass(frozen=True, slots=True)
class _Check:
    """`convert` gives the value to keep, `_NOTHING` for None, and None for a refused value."""

    allowed: str
    convert: Callable[[Any], Any]


def _flag(value: object) -> object:
    return value if isinstance(value, bool) else None


def _whole(lo: int, hi: int) -> Callable[[object], object]:
    def convert(value: object) -> object:
        return value if type(value) is int and lo <= value <= hi else None

    return convert


def _duration(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value >= 0 and not math.isnan(value) else None


def _folder(value: object) -> object:
    if not isinstance(value, str | Path) or value == "" or "\0" in str(value):
        return None
    return Path(value).expanduser() if isinstance(value, str) else value


def _folder_or_none(value: object) -> object:
    return _NOTHING if value is None else _folder(value)


def _topics(value: object) -> object:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return None
    topics = list(value)
    return frozenset(topics) if all(isinstance(t, str) and t in LOG_TOPICS for t in topics) else None


_FLAG = _Check("True, False", _flag)
_FIELDS: dict[str, _Check] = {
    "trace_dir": _Check("a folder, or None", _folder_or_none),
    "logs": _Check("topics among " + ", ".join(sorted(LOG_TOPICS)), _topics),
    "dump_dir": _Check("a folder, or None", _folder_or_none),
    "cache_dir": _Check("a folder", _folder),
    "num_threads": _Check(f"a whole number from 1 to {MAX_THREADS}", _whole(1, MAX_THREADS)),
    "contract": _FLAG,
    "deterministic": _FLAG,
    "release_gil_us": _Check("microseconds, 0 or more", _duration),
    "max_specialisations": _Check("a whole number from 1 to 1024", _whole(1, 1024)),
    "fusion": _FLAG,
    "use_cache": _FLAG,
}


def _read_folder(text: str) -> object:
    return Path(text).expanduser()


def _read_topics(text: str) -> object:
    return frozenset(t.strip() for t in text.split(",") if t.strip())


def _read_whole(text: str) -> object:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "BROADLOOM_TRACE": ("trace_dir", _read_folder),
    "BROADLOOM_LOGS": ("logs", _read_topics),
    "BROADLOOM_DUMP": ("dump_dir", _read_folder),
    "BROADLOOM_CACHE_DIR": ("cache_dir", _read_folder),
    "BROADLOOM_NUM_THREADS": ("num_threads", _read_whole),
}


def _did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}? Otherwise {otherwise}" if close else otherwise


def _remedy(name: str, text: str, variable: str) -> str:
    if name == "logs":
        wrong = sorted(t.strip() for t in text.split(",") if t.strip() and t.strip() not in LOG_TOPICS)
        return _did_you_mean(wrong[0], LOG_TOPICS, f"remove {wrong[0]!r} from {variable}")
    return f"correct or unset {variable}"
