"""The inspection API of the array API standard: what this namespace can do, and with which dtypes and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from broadloom import dtypes as _dtypes
from broadloom.array_api.data_types import KINDS

API_VERSION = "2024.12"
_DEFAULTS = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
_STANDARD = tuple(d for d in _dtypes.ALL if d.name not in ("float16", "bfloat16"))


class NamespaceInfo:
    """What `__array_namespace_info__` gives."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are, and how many axes an array may have."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made."""
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that results have where nothing says which."""
        on_cpu(device)
        return {kind: np.dtype(name) for kind, name in _DEFAULTS.items()}

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of the standard by name; of a kind, or of a tuple of kinds, as `isdtype` takes them.

        Raises `ValueError` for a name that is no kind.
        """
        on_cpu(device)
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        unknown = [k for k in kinds if k not in KINDS]
        if unknown:
            raise ValueError(f"dtypes: kind; got {unknown[0]!r}; allowed: {', '.join(KINDS)}, or a tuple of these")
        letters = "".join(KINDS[k] for k in kinds)
        return {d.name: d.numpy for d in _STANDARD if d.kind in letters}


def on_cpu(device: Any) -> None:
    """Raises `ValueError` for a device that there is not."""
    if device not in (None, "cpu"):
        raise ValueError(f"device; got {device!r}; allowed: 'cpu'")


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace can do, and with which dtypes and devices."""
    return NamespaceInfo()
