"""Broadloom: an array compiler. NumPy functions in, one fused native module out.

>>> import numpy as np
>>> import broadloom as bl
>>> @bl.compile
... def f(x, y):
...     return np.sin(x) * y + x
>>> f(np.zeros(2), np.ones(2))
array([0., 0.])
"""

from broadloom.compiler.api import Compiled, compile, explain, make_graph
from broadloom.compiler.report import CompileReport
from broadloom.tensor.dispatch import Tensor
from broadloom.transforms.vmap import vmap

__all__ = ["CompileReport", "Compiled", "Tensor", "compile", "explain", "make_graph", "vmap"]
