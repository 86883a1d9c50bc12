"""Heavy modules, imported when they are first needed: the only place with imports inside functions.

What goes in: nothing. What comes out: the module. What holds: `import broadloom` imports none of them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def scipy_special() -> ModuleType:
    """Special functions: the reference of erf and erfc."""
    return import_module("scipy.special")


def scipy_lapack() -> ModuleType:
    """LAPACK routines on arrays: the reference of the factorisations."""
    return import_module("scipy.linalg.lapack")
