"""The frontend: one table from NumPy's callables, methods and attributes to op calls on a recorder.

What goes in: a NumPy callable (or the name of an ndarray method or attribute) and arguments in which arrays are
handles. What comes out: handles of results with NumPy's dtype, shape, kind and view relation, or `Unsupported`.
"""

from broadloom.frontend.members import ATTRIBUTES, METHODS, REFUSED_METHODS, getitem, setitem
from broadloom.frontend.table import FUNCTIONS, REFUSED, entry_of, ufunc_method
from broadloom.frontend.unsupported import Unsupported

__all__ = [
    "ATTRIBUTES",
    "FUNCTIONS",
    "METHODS",
    "REFUSED",
    "REFUSED_METHODS",
    "Unsupported",
    "entry_of",
    "getitem",
    "setitem",
    "ufunc_method",
]
