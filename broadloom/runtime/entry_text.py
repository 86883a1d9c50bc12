"""The native entry: one function that CPython calls, and that walks tables. Its text is in `runtime/ll/entry_*.ll`.

What goes in: nothing. What comes out: the layout of the tables, and the text of `bl_entry(self, args, nargs,
kwnames)`, a `METH_FASTCALL | METH_KEYWORDS` function. `self` is a list [header, chain]: the header says how arguments
are bound, the chain is a tuple whose first item holds the addresses of the tables of the specialisations (`table.py`
writes them). For each table in turn: fetch the sources and check the guards, step by step; gather the inputs; plan;
allocate; run; wrap. The first table whose guards hold serves the call; if none does, Python is called.

What holds: nothing is compiled per specialisation; the chain that a call began with stays alive until it returns,
so another thread may replace it; every reference that a step creates is in `owned` and released at the end;
whatever the code is not sure of counts as a miss, and Python decides. Offsets of struct fields are those of CPython
with the GIL and NumPy 2, and probed before use (`probe.py`).
"""

from __future__ import annotations

from broadloom.codegen import abi
from broadloom.runtime.text import ll_text

# Functions and objects that the text asks for, by where they come from.
PYTHON_FUNCTIONS = (
    "PyBytes_AsString", "PyCell_Get", "PyComplex_FromDoubles", "PyDict_GetItemWithError", "PyErr_Clear",
    "PyErr_Occurred", "PyEval_RestoreThread", "PyEval_SaveThread", "PyFloat_FromDouble", "PyFunction_GetCode",
    "PyFunction_GetDefaults",
    "PyFunction_GetGlobals", "PyFunction_GetKwDefaults", "PyList_GetItem", "PyList_New", "PyList_SetItem",
    "PyList_Size", "PyLong_AsLongLongAndOverflow", "PyLong_FromLongLong", "PyModule_GetDict",
    "PyObject_CallObject", "PyObject_GenericGetAttr", "PyObject_GenericGetDict", "PyObject_GetAttr", "PyObject_Size",
    "PyObject_RichCompareBool", "PyTuple_GetItem", "PyTuple_New", "PyTuple_SetItem", "PyTuple_Size",
    "PyType_IsSubtype", "PyUnicode_Compare", "PyBool_FromLong", "PyDict_New", "PyDict_Next", "PyDict_SetItem",
    "Py_DecRef", "Py_IncRef", "_PyType_Lookup",
)  # fmt: skip
PYTHON_OBJECTS = (
    "PyModule_Type", "PyType_Type", "PyTuple_Type", "PyList_Type", "PyDict_Type", "PyFunction_Type", "PyLong_Type",
    "PyFloat_Type", "PyComplex_Type", "PyUnicode_Type", "_Py_TrueStruct",
)  # fmt: skip
NUMPY_FUNCTIONS = ("PyArray_NewFromDescr", "PyArray_Scalar", "PyArray_ScalarAsCtype", "PyDataMem_SetHandler")
NUMPY_OBJECTS = ("PyArray_Type",)

# ---- the layout of the tables, in words of 8 bytes -----------------------------------------------------------------

HEADER = ("PARAMS", "POSITIONAL", "POSONLY", "VARARGS", "VARKEYWORDS", "FUNCTION", "CODE", "ON_MISS", "NAMES")
TABLE = (
    "FRAME", "REGS", "NREGS", "OWNED", "STEPS", "NSTEPS", "INPUTS", "NINPUTS", "OUTPUTS", "NOUTPUTS", "RECIPE",
    "NRECIPE", "PLAN", "RUN", "THREADS", "RELEASE", "ON_ERROR", "HITS", "HANDLER", "INS", "SCRATCH", "OUTS", "OBJECTS",
    "DIMS", "STACK", "CTX", "GENERIC", "ZEROED",
)  # fmt: skip
STEP_WORDS, INPUT_WORDS, OUTPUT_WORDS, RECIPE_WORDS, RPN_WORDS = 6, 3, 4, 2, 3

STEPS = {
    "arg": 1, "global": 2, "cell": 3, "attr": 4, "class": 5, "instance": 6, "item": 7, "fglobal": 8,
    "is": 10, "type": 11, "equal": 12, "int": 13, "length": 14, "array": 15, "same": 16, "differ": 17,
    "disjoint": 18, "relation": 19, "call": 20, "present": 21, "hold": 22,
    "float": 23, "keys": 24,
}  # fmt: skip
INPUTS = {"array": 0, "scalar": 1, "int": 2, "size": 3, "extension": 4}
OUTPUTS = {"c": 0, "f": 1, "strided": 2, "scalar": 3}
RECIPES = {"output": 0, "scalar": 1, "const": 2, "reg": 3, "tuple": 4, "list": 5, "float": 6, "complex": 7,
           "integer": 8, "bool": 9, "wrap": 10, "call": 11}  # fmt: skip
RPN = {"const": 0, "size": 1, "int": 2, "add": 3, "mul": 4, "floordiv": 5, "mod": 6, "min": 7, "max": 8, "eq": 9,
       "ne": 10, "lt": 11, "le": 12}  # fmt: skip
RPN_DEPTH = 32
# of an array guard: then sizes (-1: any), axis kinds (0 any, 1 unit, 2 zero) and memory order, each `ndim` words
ARRAY = ("TYPENUM", "NDIM", "LAYOUT", "ALIGNED", "WRITTEN", "ITEMSIZE", "MEMMAP", "TYPENUM2")
LAYOUTS = {"c": 0, "f": 1, "strided": 2}
AXES = {"any": 0, "unit": 1, "zero": 2}

_FILES = (
    "entry_declarations", "entry_helpers", "entry_fetch", "entry_arrays", "entry_guards", "entry_run",
    "entry_wrap", "entry_call",
)  # fmt: skip


def entry_text() -> str:
    """The LLVM IR of the native entry. It defines `bl_entry`."""
    objects = "".join(f"@{name} = external global i8\n" for name in (*PYTHON_OBJECTS, *NUMPY_OBJECTS))
    values = {f"T_{name}": i for i, name in enumerate(TABLE)} | {f"H_{name}": i for i, name in enumerate(HEADER)}
    values |= {"DEPTH": RPN_DEPTH, "C_THREADS": abi.CTX_THREADS, "C_SITE": abi.ERROR_SITE}
    values |= {"C_PAYLOAD": abi.ERROR_PAYLOAD}
    return objects + ll_text(*_FILES, values=values)
