"""Heavy imports, declared once and made at first use.

What goes in: the name of a module. What comes out: a stand-in whose attributes are the module's; the first one
asked for imports it. What holds: importing Broadloom imports none of these; a module that is missing is an
ImportError that says what to install.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class LazyModule:
    """Stands for `module` until an attribute is asked for; `install` is the package that holds it.

    >>> LazyModule("math", "python").gcd(12, 18)
    6
    """

    module: str
    install: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # probes by copy, pickle and inspect must not import
        return getattr(self.load(), name)

    def load(self) -> ModuleType:
        """The module itself, imported if need be. Raises ImportError naming what to install."""
        present = sys.modules.get(self.module)
        if present is not None:
            return present
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{self.module} cannot be imported: {error}; remedy: pip install {self.install}", name=self.module
            ) from error


llvmlite = LazyModule("llvmlite", "llvmlite")
llvm = LazyModule("llvmlite.binding", "llvmlite")  # 40-90 ms
cython_blas = LazyModule("scipy.linalg.cython_blas", "scipy")  # 200-400 ms
cython_lapack = LazyModule("scipy.linalg.cython_lapack", "scipy")
scipy_blas = LazyModule("scipy.linalg.blas", "scipy")
scipy_lapack = LazyModule("scipy.linalg.lapack", "scipy")
scipy_special = LazyModule("scipy.special", "scipy")  # 50-100 ms
rich_console = LazyModule("rich.console", "rich")
rich_table = LazyModule("rich.table", "rich")
rich_progress = LazyModule("rich.progress", "rich")
fractions = LazyModule("fractions", "python")  # 5 ms
jinja2 = LazyModule("jinja2", "jinja2")
