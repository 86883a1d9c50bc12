"""The native entry, as LLVM IR text: one function that CPython calls, and that walks tables.

What goes in: nothing. What comes out: the text of `bl_entry(self, args, nargs, kwnames)`, a `METH_FASTCALL |
METH_KEYWORDS` function, and its helpers. `self` is a list [header, chain]: the header says how arguments are bound,
the chain is a tuple whose first item holds the addresses of the tables of the specialisations (`table.py` writes
them). For each table in turn: fetch the sources and check the guards, step by step; gather the inputs; plan;
allocate; run; wrap. The first table whose guards hold serves the call; if none does, Python is called.

What holds: nothing is compiled per specialisation; the chain that a call began with stays alive until it returns,
so another thread may replace it; every reference that a step creates is in `owned` and released at the end;
whatever the code is not sure of counts as a miss, and Python decides. Offsets of struct fields are written here
for CPython with the GIL and NumPy 2, and probed before use (`probe.py`).
"""

from __future__ import annotations

from broadloom.codegen import abi

# Functions and objects that the text asks for, by where they come from.
PYTHON_FUNCTIONS = (
    "PyBytes_AsString", "PyCell_Get", "PyComplex_FromDoubles", "PyDict_GetItemWithError", "PyErr_Clear",
    "PyEval_RestoreThread", "PyEval_SaveThread", "PyFloat_FromDouble", "PyFunction_GetCode", "PyFunction_GetDefaults",
    "PyFunction_GetGlobals", "PyFunction_GetKwDefaults", "PyList_GetItem", "PyList_New", "PyList_SetItem",
    "PyList_Size", "PyLong_AsLongLongAndOverflow", "PyLong_FromLongLong", "PyModule_GetDict",
    "PyObject_CallObject", "PyObject_GenericGetAttr", "PyObject_GenericGetDict", "PyObject_GetAttr", "PyObject_Size",
    "PyObject_RichCompareBool", "PyTuple_GetItem", "PyTuple_New", "PyTuple_SetItem", "PyTuple_Size",
    "PyType_IsSubtype", "PyUnicode_Compare", "PyBool_FromLong", "PyDict_New", "PyDict_SetItem",
    "Py_DecRef", "Py_IncRef", "_PyType_Lookup",
)  # fmt: skip
PYTHON_OBJECTS = (
    "PyModule_Type", "PyType_Type", "PyTuple_Type", "PyList_Type", "PyDict_Type", "PyFunction_Type", "PyLong_Type",
    "PyFloat_Type", "PyComplex_Type", "_Py_TrueStruct",
)  # fmt: skip
NUMPY_FUNCTIONS = ("PyArray_NewFromDescr", "PyArray_Scalar", "PyArray_ScalarAsCtype", "PyDataMem_SetHandler")
NUMPY_OBJECTS = ("PyArray_Type",)

# ---- the layout of the tables, in words of 8 bytes -----------------------------------------------------------------

HEADER = ("PARAMS", "POSITIONAL", "POSONLY", "VARARGS", "FUNCTION", "CODE", "ON_MISS", "NAMES")
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
    "float": 23,
}  # fmt: skip
INPUTS = {"array": 0, "scalar": 1, "int": 2, "size": 3, "extension": 4}
OUTPUTS = {"c": 0, "f": 1, "strided": 2, "scalar": 3}
RECIPES = {"output": 0, "scalar": 1, "const": 2, "reg": 3, "tuple": 4, "list": 5, "float": 6, "complex": 7,
           "integer": 8, "bool": 9, "wrap": 10}  # fmt: skip
RPN = {"const": 0, "size": 1, "int": 2, "add": 3, "mul": 4, "floordiv": 5, "mod": 6, "min": 7, "max": 8, "eq": 9,
       "ne": 10, "lt": 11, "le": 12}  # fmt: skip
RPN_DEPTH = 32
# of an array guard: then sizes (-1: any), axis kinds (0 any, 1 unit, 2 zero) and memory order, each `ndim` words
ARRAY = ("TYPENUM", "NDIM", "LAYOUT", "ALIGNED", "WRITTEN", "ITEMSIZE", "MEMMAP", "TYPENUM2")
LAYOUTS = {"c": 0, "f": 1, "strided": 2}
AXES = {"any": 0, "unit": 1, "zero": 2}

_HELPERS = """
%bl.array = type { ptr, i32, i32, ptr, ptr }

define internal i64 @w(ptr %t, i64 %i) alwaysinline {
  %p = getelementptr i64, ptr %t, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}

define internal ptr @wp(ptr %t, i64 %i) alwaysinline {
  %p = getelementptr ptr, ptr %t, i64 %i
  %v = load ptr, ptr %p
  ret ptr %v
}

define internal ptr @at(ptr %p, i64 %bytes) alwaysinline {
  %q = getelementptr i8, ptr %p, i64 %bytes
  ret ptr %q
}

define internal ptr @field(ptr %o, i64 %bytes) alwaysinline {
  %p = getelementptr i8, ptr %o, i64 %bytes
  %v = load ptr, ptr %p
  ret ptr %v
}

define internal ptr @typeof(ptr %o) alwaysinline {
  %t = call ptr @field(ptr %o, i64 8)
  ret ptr %t
}

define internal i1 @isa(ptr %o, ptr %type) {
entry:
  %t = call ptr @typeof(ptr %o)
  %same = icmp eq ptr %t, %type
  br i1 %same, label %yes, label %ask
ask:
  %r = call i32 @PyType_IsSubtype(ptr %t, ptr %type)
  %sub = icmp ne i32 %r, 0
  ret i1 %sub
yes:
  ret i1 true
}

define internal void @drop(ptr %o) {
entry:
  %none = icmp eq ptr %o, null
  br i1 %none, label %done, label %some
some:
  call void @Py_DecRef(ptr %o)
  br label %done
done:
  ret void
}

; A borrowed item of a dict, or null; never leaves an error set.
define internal ptr @lookup(ptr %dict, ptr %key) {
entry:
  %v = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %key)
  %none = icmp eq ptr %v, null
  br i1 %none, label %clear, label %done
clear:
  call void @PyErr_Clear()
  br label %done
done:
  ret ptr %v
}

define internal i32 @ndim(ptr %x) alwaysinline {
  %p = call ptr @at(ptr %x, i64 24)
  %n = load i32, ptr %p
  ret i32 %n
}

; The value of an exact int that fits; false otherwise.
define internal i1 @integer(ptr %o, ptr %out) {
entry:
  %over = alloca i32
  %t = call ptr @typeof(ptr %o)
  %is = icmp eq ptr %t, @PyLong_Type
  br i1 %is, label %read, label %no
read:
  store i32 0, ptr %over
  %v = call i64 @PyLong_AsLongLongAndOverflow(ptr %o, ptr %over)
  store i64 %v, ptr %out
  %flag = load i32, ptr %over
  %fits = icmp eq i32 %flag, 0
  ret i1 %fits
no:
  ret i1 false
}

; The size of axis k of an array; false when there is none.
define internal i1 @size_of(ptr %x, i64 %k, ptr %out) {
entry:
  %is = call i1 @isa(ptr %x, ptr @PyArray_Type)
  br i1 %is, label %rank, label %no
rank:
  %n = call i32 @ndim(ptr %x)
  %n64 = zext i32 %n to i64
  %in = icmp ult i64 %k, %n64
  br i1 %in, label %read, label %no
read:
  %dims = call ptr @field(ptr %x, i64 32)
  %v = call i64 @w(ptr %dims, i64 %k)
  store i64 %v, ptr %out
  ret i1 true
no:
  ret i1 false
}

define internal i64 @elements(ptr %dims, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %more ]
  %total = phi i64 [ 1, %entry ], [ %total1, %more ]
  %end = icmp uge i64 %k, %n
  br i1 %end, label %done, label %more
more:
  %d = call i64 @w(ptr %dims, i64 %k)
  %total1 = mul i64 %total, %d
  %k1 = add i64 %k, 1
  br label %loop
done:
  ret i64 %total
}
"""

# Fetching: each puts an object (or null, when that is allowed) into a register. step = {op, dst, a, b, c, optional}
_FETCH = """
define internal ptr @global_of(ptr %dict, ptr %name, ptr %builtins_name) {
entry:
  %v = call ptr @lookup(ptr %dict, ptr %name)
  %found = icmp ne ptr %v, null
  br i1 %found, label %done, label %second
done:
  ret ptr %v
second:
  %b = call ptr @lookup(ptr %dict, ptr %builtins_name)
  %none = icmp eq ptr %b, null
  br i1 %none, label %done, label %kind
kind:
  %module = call i1 @isa(ptr %b, ptr @PyModule_Type)
  br i1 %module, label %open, label %plain
open:
  %d = call ptr @PyModule_GetDict(ptr %b)
  %dv = call ptr @lookup(ptr %d, ptr %name)
  ret ptr %dv
plain:
  %t = call ptr @typeof(ptr %b)
  %isdict = icmp eq ptr %t, @PyDict_Type
  br i1 %isdict, label %direct, label %fail
direct:
  %pv = call ptr @lookup(ptr %b, ptr %name)
  ret ptr %pv
fail:
  ret ptr null
}

; A new reference in *owner, or a borrowed result with *owner null.
define internal ptr @attribute_of(ptr %base, ptr %name, ptr %owner) {
entry:
  store ptr null, ptr %owner
  %module = call i1 @isa(ptr %base, ptr @PyModule_Type)
  br i1 %module, label %open, label %other
open:
  %d = call ptr @PyModule_GetDict(ptr %base)
  %v = call ptr @lookup(ptr %d, ptr %name)
  ret ptr %v
other:
  %t = call ptr @typeof(ptr %base)
  %plain = icmp eq ptr %t, @PyType_Type
  br i1 %plain, label %class, label %meta
class:
  %cv = call ptr @PyObject_GetAttr(ptr %base, ptr %name)
  br label %check
meta:
  %sub = call i1 @isa(ptr %base, ptr @PyType_Type)
  br i1 %sub, label %fail, label %object
object:
  %ov = call ptr @PyObject_GenericGetAttr(ptr %base, ptr %name)
  br label %check
check:
  %r = phi ptr [ %cv, %class ], [ %ov, %object ]
  store ptr %r, ptr %owner
  %none = icmp eq ptr %r, null
  br i1 %none, label %clear, label %done
clear:
  call void @PyErr_Clear()
  br label %fail
fail:
  ret ptr null
done:
  ret ptr %r
}

; The entry of an instance's __dict__: a new reference or null.
define internal ptr @instance_entry(ptr %base, ptr %name) {
entry:
  %d = call ptr @PyObject_GenericGetDict(ptr %base, ptr null)
  %none = icmp eq ptr %d, null
  br i1 %none, label %clear, label %kind
clear:
  call void @PyErr_Clear()
  ret ptr null
kind:
  %v = call ptr @lookup(ptr %d, ptr %name)
  %absent = icmp eq ptr %v, null
  br i1 %absent, label %release, label %hold
hold:
  call void @Py_IncRef(ptr %v)
  br label %release
release:
  call void @Py_DecRef(ptr %d)
  ret ptr %v
}

; A borrowed item of an exact list or dict or of a tuple, or null.
define internal ptr @item_of(ptr %base, ptr %key, i64 %index) {
entry:
  %t = call ptr @typeof(ptr %base)
  %dict = icmp eq ptr %t, @PyDict_Type
  br i1 %dict, label %bykey, label %sequence
bykey:
  %v = call ptr @lookup(ptr %base, ptr %key)
  ret ptr %v
sequence:
  %negative = icmp slt i64 %index, 0
  br i1 %negative, label %fail, label %kind
kind:
  %list = icmp eq ptr %t, @PyList_Type
  br i1 %list, label %inlist, label %maybe
inlist:
  %ln = call i64 @PyList_Size(ptr %base)
  %lin = icmp slt i64 %index, %ln
  br i1 %lin, label %getlist, label %fail
getlist:
  %lv = call ptr @PyList_GetItem(ptr %base, i64 %index)
  ret ptr %lv
maybe:
  %tuple = call i1 @isa(ptr %base, ptr @PyTuple_Type)
  br i1 %tuple, label %intuple, label %fail
intuple:
  %tn = call i64 @PyTuple_Size(ptr %base)
  %tin = icmp slt i64 %index, %tn
  br i1 %tin, label %gettuple, label %fail
gettuple:
  %tv = call ptr @PyTuple_GetItem(ptr %base, i64 %index)
  ret ptr %tv
fail:
  ret ptr null
}

define internal i1 @fetch(i64 %op, ptr %step, ptr %regs, ptr %owned, ptr %params) {
entry:
  %owner = alloca ptr
  store ptr null, ptr %owner
  %dst = call i64 @w(ptr %step, i64 1)
  %a = call i64 @w(ptr %step, i64 2)
  %ap = inttoptr i64 %a to ptr
  %bp = call ptr @wp(ptr %step, i64 3)
  %c = call i64 @w(ptr %step, i64 4)
  %cp = inttoptr i64 %c to ptr
  switch i64 %op, label %arg [
    i64 2, label %global
    i64 3, label %cell
  ]
arg:
  %isarg = icmp eq i64 %op, 1
  br i1 %isarg, label %argument, label %based
argument:
  %av = call ptr @wp(ptr %params, i64 %a)
  br label %put
global:
  %gv = call ptr @global_of(ptr %ap, ptr %bp, ptr %cp)
  br label %put
cell:
  %cv = call ptr @PyCell_Get(ptr %ap)
  store ptr %cv, ptr %owner
  br label %put
based:
  %base = call ptr @wp(ptr %regs, i64 %a)
  %nobase = icmp eq ptr %base, null
  br i1 %nobase, label %miss, label %choose
choose:
  switch i64 %op, label %miss [
    i64 4, label %attr
    i64 5, label %class
    i64 6, label %instance
    i64 7, label %item
    i64 8, label %fglobal
  ]
attr:
  %atv = call ptr @attribute_of(ptr %base, ptr %bp, ptr %owner)
  br label %put
class:
  %t = call ptr @typeof(ptr %base)
  %clv = call ptr @_PyType_Lookup(ptr %t, ptr %bp)
  br label %put
instance:
  %iv = call ptr @instance_entry(ptr %base, ptr %bp)
  store ptr %iv, ptr %owner
  br label %put
item:
  %itv = call ptr @item_of(ptr %base, ptr %bp, i64 %c)
  br label %put
fglobal:
  %ft = call ptr @typeof(ptr %base)
  %isf = icmp eq ptr %ft, @PyFunction_Type
  br i1 %isf, label %open, label %miss
open:
  %fd = call ptr @PyFunction_GetGlobals(ptr %base)
  %fv = call ptr @global_of(ptr %fd, ptr %bp, ptr %cp)
  br label %put
put:
  %v = phi ptr [ %av, %argument ], [ %gv, %global ], [ %cv, %cell ], [ %atv, %attr ], [ %clv, %class ],
               [ %iv, %instance ], [ %itv, %item ], [ %fv, %open ]
  %rp = getelementptr ptr, ptr %regs, i64 %dst
  store ptr %v, ptr %rp
  %own = load ptr, ptr %owner
  %op2 = getelementptr ptr, ptr %owned, i64 %dst
  store ptr %own, ptr %op2
  %there = icmp ne ptr %v, null
  %optional = call i64 @w(ptr %step, i64 5)
  %may = icmp ne i64 %optional, 0
  %ok = or i1 %there, %may
  ret i1 %ok
miss:
  ret i1 false
}
"""

_GUARDS = """
define internal i1 @guard_equal(ptr %o, ptr %value, i64 %mode) {
entry:
  %same = icmp eq ptr %o, %value
  br i1 %same, label %yes, label %types
types:
  %t = call ptr @typeof(ptr %o)
  %u = call ptr @typeof(ptr %value)
  %st = icmp eq ptr %t, %u
  br i1 %st, label %compare, label %no
compare:
  %bits = icmp ne i64 %mode, 0
  br i1 %bits, label %first, label %general
first:
  %p0 = call ptr @at(ptr %o, i64 16)
  %q0 = call ptr @at(ptr %value, i64 16)
  %x0 = load i64, ptr %p0
  %y0 = load i64, ptr %q0
  %e0 = icmp eq i64 %x0, %y0
  br i1 %e0, label %second, label %no
second:
  %pair = icmp eq i64 %mode, 2
  br i1 %pair, label %imaginary, label %yes
imaginary:
  %p1 = call ptr @at(ptr %o, i64 24)
  %q1 = call ptr @at(ptr %value, i64 24)
  %x1 = load i64, ptr %p1
  %y1 = load i64, ptr %q1
  %e1 = icmp eq i64 %x1, %y1
  ret i1 %e1
general:
  %r = call i32 @PyObject_RichCompareBool(ptr %o, ptr %value, i32 2)
  %bad = icmp slt i32 %r, 0
  br i1 %bad, label %clear, label %answer
clear:
  call void @PyErr_Clear()
  ret i1 false
answer:
  %eq = icmp eq i32 %r, 1
  ret i1 %eq
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @guard_int(ptr %o, i64 %lo) {
entry:
  %v = alloca i64
  %is = call i1 @integer(ptr %o, ptr %v)
  br i1 %is, label %range, label %no
range:
  %x = load i64, ptr %v
  %low = icmp sge i64 %x, %lo
  %high = icmp sle i64 %x, 4611686018427387904
  %r = and i1 %low, %high
  ret i1 %r
no:
  ret i1 false
}

define internal i1 @guard_length(ptr %o, i64 %n, ptr %type) {
entry:
  %t = call ptr @typeof(ptr %o)
  %is = icmp eq ptr %t, %type
  br i1 %is, label %count, label %no
count:
  %m = call i64 @PyObject_Size(ptr %o)
  %r = icmp eq i64 %m, %n
  ret i1 %r
no:
  ret i1 false
}

; g = {typenum, ndim, layout, aligned, written, itemsize, memmap type, typenum of the same meaning, sizes, kinds,
; order}
define internal i1 @guard_array(ptr %x, ptr %g) {
entry:
  %t = call ptr @typeof(ptr %x)
  %exact = icmp eq ptr %t, @PyArray_Type
  %memmap = call ptr @wp(ptr %g, i64 6)
  %mapped = icmp eq ptr %t, %memmap
  %is = or i1 %exact, %mapped
  br i1 %is, label %dtype, label %no
dtype:
  %descr = call ptr @field(ptr %x, i64 56)
  %np = call ptr @at(ptr %descr, i64 28)
  %num = load i32, ptr %np
  %bp = call ptr @at(ptr %descr, i64 26)
  %byteorder = load i8, ptr %bp
  %swapped = icmp eq i8 %byteorder, 62
  %wanted = call i64 @w(ptr %g, i64 0)
  %num64 = sext i32 %num to i64
  %match1 = icmp eq i64 %num64, %wanted
  %other = call i64 @w(ptr %g, i64 7)
  %match2 = icmp eq i64 %num64, %other
  %match = or i1 %match1, %match2
  %native = xor i1 %swapped, true
  %d = and i1 %match, %native
  br i1 %d, label %rank, label %no
rank:
  %n = call i32 @ndim(ptr %x)
  %n64 = sext i32 %n to i64
  %nd = call i64 @w(ptr %g, i64 1)
  %r = icmp eq i64 %n64, %nd
  br i1 %r, label %flags, label %no
flags:
  %fp = call ptr @at(ptr %x, i64 64)
  %f = load i32, ptr %fp
  %c = and i32 %f, 1
  %notc = icmp eq i32 %c, 0
  %ff = and i32 %f, 2
  %notf = icmp eq i32 %ff, 0
  %fonly = select i1 %notf, i64 2, i64 1
  %layout = select i1 %notc, i64 %fonly, i64 0
  %wl = call i64 @w(ptr %g, i64 2)
  %l = icmp eq i64 %layout, %wl
  %needaligned = call i64 @w(ptr %g, i64 3)
  %anya = icmp eq i64 %needaligned, 0
  %fa = and i32 %f, 256
  %isa = icmp ne i32 %fa, 0
  %a = or i1 %anya, %isa
  %written = call i64 @w(ptr %g, i64 4)
  %anyw = icmp eq i64 %written, 0
  %fw = and i32 %f, 1024
  %isw = icmp ne i32 %fw, 0
  %wr = or i1 %anyw, %isw
  %la = and i1 %l, %a
  %law = and i1 %la, %wr
  br i1 %law, label %axes, label %no
axes:
  %dims = call ptr @field(ptr %x, i64 32)
  %strides = call ptr @field(ptr %x, i64 40)
  %sizes = getelementptr i64, ptr %g, i64 8
  %kinds = getelementptr i64, ptr %sizes, i64 %nd
  %order = getelementptr i64, ptr %kinds, i64 %nd
  %itemsize = call i64 @w(ptr %g, i64 5)
  br label %axis
axis:
  %k = phi i64 [ 0, %axes ], [ %k1, %next ]
  %end = icmp uge i64 %k, %nd
  br i1 %end, label %ordered, label %size
size:
  %want = call i64 @w(ptr %sizes, i64 %k)
  %have = call i64 @w(ptr %dims, i64 %k)
  %any = icmp slt i64 %want, 0
  %eq = icmp eq i64 %want, %have
  %fits = or i1 %any, %eq
  br i1 %fits, label %stride, label %no
stride:
  %contiguous = icmp ne i64 %layout, 2
  %short = icmp slt i64 %have, 2
  %skip = or i1 %contiguous, %short
  br i1 %skip, label %next, label %kind
kind:
  %s = call i64 @w(ptr %strides, i64 %k)
  %rest = srem i64 %s, %itemsize
  %whole = icmp eq i64 %rest, 0
  %wk = call i64 @w(ptr %kinds, i64 %k)
  %wantunit = icmp eq i64 %wk, 1
  %wantzero = icmp eq i64 %wk, 2
  %unit = icmp eq i64 %s, %itemsize
  %zero = icmp eq i64 %s, 0
  %nounit = xor i1 %wantunit, true
  %nozero = xor i1 %wantzero, true
  %u = or i1 %nounit, %unit
  %z = or i1 %nozero, %zero
  %uz = and i1 %u, %z
  %ok = and i1 %uz, %whole
  br i1 %ok, label %next, label %no
next:
  %k1 = add i64 %k, 1
  br label %axis
ordered:
  %strided = icmp eq i64 %layout, 2
  br i1 %strided, label %walk, label %yes
walk:
  ; absolute strides fall along the order, ties in C order
  %i = phi i64 [ 1, %ordered ], [ %i1, %step ]
  %over = icmp uge i64 %i, %nd
  br i1 %over, label %yes, label %pair
pair:
  %im = sub i64 %i, 1
  %ax0 = call i64 @w(ptr %order, i64 %im)
  %ax1 = call i64 @w(ptr %order, i64 %i)
  %s0 = call i64 @w(ptr %strides, i64 %ax0)
  %s1 = call i64 @w(ptr %strides, i64 %ax1)
  %m0 = call i64 @llvm.abs.i64(i64 %s0, i1 false)
  %m1 = call i64 @llvm.abs.i64(i64 %s1, i1 false)
  %falls = icmp sgt i64 %m0, %m1
  %tie = icmp eq i64 %m0, %m1
  %corder = icmp slt i64 %ax0, %ax1
  %tied = and i1 %tie, %corder
  %good = or i1 %falls, %tied
  br i1 %good, label %step, label %no
step:
  %i1 = add i64 %i, 1
  br label %walk
yes:
  ret i1 true
no:
  ret i1 false
}

; The bytes [lo, hi) that an array may touch; false when it is no array or has no element.
define internal i1 @extent(ptr %x, ptr %lo, ptr %hi) {
entry:
  %is = call i1 @isa(ptr %x, ptr @PyArray_Type)
  br i1 %is, label %start, label %no
start:
  %data = call ptr @field(ptr %x, i64 16)
  %base = ptrtoint ptr %data to i64
  %n = call i32 @ndim(ptr %x)
  %n64 = zext i32 %n to i64
  %dims = call ptr @field(ptr %x, i64 32)
  %strides = call ptr @field(ptr %x, i64 40)
  %descr = call ptr @field(ptr %x, i64 56)
  %ep = call ptr @at(ptr %descr, i64 40)
  %itemsize = load i64, ptr %ep
  %first = add i64 %base, %itemsize
  br label %axis
axis:
  %k = phi i64 [ 0, %start ], [ %k1, %next ]
  %l = phi i64 [ %base, %start ], [ %l1, %next ]
  %h = phi i64 [ %first, %start ], [ %h1, %next ]
  %end = icmp uge i64 %k, %n64
  br i1 %end, label %done, label %size
size:
  %d = call i64 @w(ptr %dims, i64 %k)
  %empty = icmp eq i64 %d, 0
  br i1 %empty, label %no, label %next
next:
  %s = call i64 @w(ptr %strides, i64 %k)
  %steps = sub i64 %d, 1
  %reach = mul i64 %steps, %s
  %down = call i64 @llvm.smin.i64(i64 %reach, i64 0)
  %up = call i64 @llvm.smax.i64(i64 %reach, i64 0)
  %l1 = add i64 %l, %down
  %h1 = add i64 %h, %up
  %k1 = add i64 %k, 1
  br label %axis
done:
  store i64 %l, ptr %lo
  store i64 %h, ptr %hi
  ret i1 true
no:
  ret i1 false
}

define internal i1 @guard_disjoint(ptr %x, ptr %y) {
entry:
  %xl = alloca i64
  %xh = alloca i64
  %yl = alloca i64
  %yh = alloca i64
  %ex = call i1 @extent(ptr %x, ptr %xl, ptr %xh)
  %ey = call i1 @extent(ptr %y, ptr %yl, ptr %yh)
  %both = and i1 %ex, %ey
  br i1 %both, label %compare, label %yes
compare:
  %a = load i64, ptr %xl
  %b = load i64, ptr %xh
  %c = load i64, ptr %yl
  %d = load i64, ptr %yh
  %before = icmp ule i64 %b, %c
  %after = icmp ule i64 %d, %a
  %apart = or i1 %before, %after
  ret i1 %apart
yes:
  ret i1 true
}

define internal i1 @divide(i64 %a, i64 %b, ptr %quotient, ptr %remainder) {
entry:
  %bad = icmp sle i64 %b, 0
  br i1 %bad, label %no, label %go
go:
  %q = sdiv i64 %a, %b
  %r = srem i64 %a, %b
  %low = icmp slt i64 %r, 0
  %q1 = sub i64 %q, 1
  %r1 = add i64 %r, %b
  %qf = select i1 %low, i64 %q1, i64 %q
  %rf = select i1 %low, i64 %r1, i64 %r
  store i64 %qf, ptr %quotient
  store i64 %rf, ptr %remainder
  ret i1 true
no:
  ret i1 false
}

; Postfix over integers; true when the last value is not 0. Overflow and division by zero are a miss.
define internal i1 @guard_relation(ptr %code, i64 %count, ptr %regs) {
entry:
  %stack = alloca [$DEPTH x i64]
  %quotient = alloca i64
  %remainder = alloca i64
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %push ]
  %top = phi i64 [ 0, %entry ], [ %top1, %push ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %done, label %decode
decode:
  %at0 = mul i64 %i, 3
  %word = getelementptr i64, ptr %code, i64 %at0
  %op = call i64 @w(ptr %word, i64 0)
  %a = call i64 @w(ptr %word, i64 1)
  %b = call i64 @w(ptr %word, i64 2)
  %slot0 = getelementptr i64, ptr %stack, i64 %top
  %leaf = icmp ult i64 %op, 3
  br i1 %leaf, label %value, label %operate
value:
  %const = icmp eq i64 %op, 0
  br i1 %const, label %constant, label %read
constant:
  store i64 %a, ptr %slot0
  br label %leafed
read:
  %o = call ptr @wp(ptr %regs, i64 %a)
  %size = icmp eq i64 %op, 1
  br i1 %size, label %readsize, label %readint
readsize:
  %sok = call i1 @size_of(ptr %o, i64 %b, ptr %slot0)
  br i1 %sok, label %leafed, label %miss
readint:
  %iok = call i1 @integer(ptr %o, ptr %slot0)
  br i1 %iok, label %leafed, label %miss
leafed:
  %topl = add i64 %top, 1
  br label %push
operate:
  %ti = sub i64 %top, 2
  %tj = sub i64 %top, 1
  %px = getelementptr i64, ptr %stack, i64 %ti
  %py = getelementptr i64, ptr %stack, i64 %tj
  %x = load i64, ptr %px
  %y = load i64, ptr %py
  switch i64 %op, label %compare [
    i64 3, label %plus
    i64 4, label %times
    i64 5, label %div
    i64 6, label %div
    i64 7, label %lower
    i64 8, label %upper
  ]
plus:
  %sp = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %x, i64 %y)
  %sv = extractvalue { i64, i1 } %sp, 0
  %so = extractvalue { i64, i1 } %sp, 1
  br i1 %so, label %miss, label %put
times:
  %mp = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %x, i64 %y)
  %mv = extractvalue { i64, i1 } %mp, 0
  %mo = extractvalue { i64, i1 } %mp, 1
  br i1 %mo, label %miss, label %put
div:
  %dok = call i1 @divide(i64 %x, i64 %y, ptr %quotient, ptr %remainder)
  br i1 %dok, label %which, label %miss
which:
  %q = load i64, ptr %quotient
  %r = load i64, ptr %remainder
  %floor = icmp eq i64 %op, 5
  %dv = select i1 %floor, i64 %q, i64 %r
  br label %put
lower:
  %lv = call i64 @llvm.smin.i64(i64 %x, i64 %y)
  br label %put
upper:
  %uv = call i64 @llvm.smax.i64(i64 %x, i64 %y)
  br label %put
compare:
  %eq = icmp eq i64 %x, %y
  %ne = icmp ne i64 %x, %y
  %lt = icmp slt i64 %x, %y
  %le = icmp sle i64 %x, %y
  %is9 = icmp eq i64 %op, 9
  %is10 = icmp eq i64 %op, 10
  %is11 = icmp eq i64 %op, 11
  %c0 = select i1 %is11, i1 %lt, i1 %le
  %c1 = select i1 %is10, i1 %ne, i1 %c0
  %c2 = select i1 %is9, i1 %eq, i1 %c1
  %cv = zext i1 %c2 to i64
  br label %put
put:
  %v = phi i64 [ %sv, %plus ], [ %mv, %times ], [ %dv, %which ], [ %lv, %lower ], [ %uv, %upper ], [ %cv, %compare ]
  store i64 %v, ptr %px
  br label %push
push:
  %top1 = phi i64 [ %topl, %leafed ], [ %tj, %put ]
  %i1 = add i64 %i, 1
  br label %loop
done:
  %last = load i64, ptr %stack
  %truth = icmp ne i64 %last, 0
  ret i1 %truth
miss:
  ret i1 false
}

define internal i1 @double_of(ptr %o, ptr %out) {
entry:
  %none = icmp eq ptr %o, null
  br i1 %none, label %no, label %kind
kind:
  %t = call ptr @typeof(ptr %o)
  %is = icmp eq ptr %t, @PyFloat_Type
  br i1 %is, label %read, label %no
read:
  %p = call ptr @at(ptr %o, i64 16)
  %v = load double, ptr %p
  store double %v, ptr %out
  ret i1 true
no:
  ret i1 false
}

; step = {op, a, kind, b or -1, bits of a constant, outcome}: float a <kind> float b or constant, is outcome
define internal i1 @guard_float(ptr %step, ptr %regs) {
entry:
  %xp = alloca double
  %yp = alloca double
  %a = call i64 @w(ptr %step, i64 1)
  %kind = call i64 @w(ptr %step, i64 2)
  %b = call i64 @w(ptr %step, i64 3)
  %bits = call i64 @w(ptr %step, i64 4)
  %outcome = call i64 @w(ptr %step, i64 5)
  store i64 %bits, ptr %yp
  %xo = call ptr @wp(ptr %regs, i64 %a)
  %xok = call i1 @double_of(ptr %xo, ptr %xp)
  br i1 %xok, label %second, label %no
second:
  %constant = icmp slt i64 %b, 0
  br i1 %constant, label %compare, label %other
other:
  %yo = call ptr @wp(ptr %regs, i64 %b)
  %yok = call i1 @double_of(ptr %yo, ptr %yp)
  br i1 %yok, label %compare, label %no
compare:
  %x = load double, ptr %xp
  %y = load double, ptr %yp
  %eq = fcmp oeq double %x, %y
  %ne = fcmp une double %x, %y
  %lt = fcmp olt double %x, %y
  %le = fcmp ole double %x, %y
  %is9 = icmp eq i64 %kind, 9
  %is10 = icmp eq i64 %kind, 10
  %is11 = icmp eq i64 %kind, 11
  %c0 = select i1 %is11, i1 %lt, i1 %le
  %c1 = select i1 %is10, i1 %ne, i1 %c0
  %c2 = select i1 %is9, i1 %eq, i1 %c1
  %wanted = icmp ne i64 %outcome, 0
  %r = icmp eq i1 %c2, %wanted
  ret i1 %r
no:
  ret i1 false
}

; All bound arguments as a new tuple; null with an error set.
define internal ptr @params_tuple(ptr %params, i64 %n) {
entry:
  %t = call ptr @PyTuple_New(i64 %n)
  %bad = icmp eq ptr %t, null
  br i1 %bad, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %more ]
  %end = icmp uge i64 %i, %n
  br i1 %end, label %done, label %more
more:
  %o = call ptr @wp(ptr %params, i64 %i)
  call void @Py_IncRef(ptr %o)
  %r = call i32 @PyTuple_SetItem(ptr %t, i64 %i, ptr %o)
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret ptr %t
}

; Python decides: callable(arguments) is True.
define internal i1 @guard_call(ptr %callable, ptr %params, i64 %n) {
entry:
  %inner = call ptr @params_tuple(ptr %params, i64 %n)
  %bad = icmp eq ptr %inner, null
  br i1 %bad, label %clear, label %pack
pack:
  %outer = call ptr @PyTuple_New(i64 1)
  %obad = icmp eq ptr %outer, null
  br i1 %obad, label %spill, label %ask
spill:
  call void @Py_DecRef(ptr %inner)
  br label %clear
ask:
  %s = call i32 @PyTuple_SetItem(ptr %outer, i64 0, ptr %inner)
  %r = call ptr @PyObject_CallObject(ptr %callable, ptr %outer)
  call void @Py_DecRef(ptr %outer)
  %rbad = icmp eq ptr %r, null
  br i1 %rbad, label %clear, label %answer
clear:
  call void @PyErr_Clear()
  ret i1 false
answer:
  %yes = icmp eq ptr %r, @_Py_TrueStruct
  call void @Py_DecRef(ptr %r)
  ret i1 %yes
}

define internal i1 @steps(ptr %table, ptr %regs, ptr %owned, ptr %params, i64 %nparams) {
entry:
  %offset = call i64 @w(ptr %table, i64 $T_STEPS)
  %first = getelementptr i64, ptr %table, i64 %offset
  %count = call i64 @w(ptr %table, i64 $T_NSTEPS)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %hold, label %decode
hold:
  ret i1 true
decode:
  %at0 = mul i64 %i, 6
  %step = getelementptr i64, ptr %first, i64 %at0
  %op = call i64 @w(ptr %step, i64 0)
  %isfetch = icmp ult i64 %op, 10
  br i1 %isfetch, label %get, label %guard
get:
  %got = call i1 @fetch(i64 %op, ptr %step, ptr %regs, ptr %owned, ptr %params)
  br label %judge
guard:
  %ra = call i64 @w(ptr %step, i64 1)
  %b = call i64 @w(ptr %step, i64 2)
  %bp = inttoptr i64 %b to ptr
  %c = call i64 @w(ptr %step, i64 3)
  %cp = inttoptr i64 %c to ptr
  %x = call ptr @wp(ptr %regs, i64 %ra)
  switch i64 %op, label %refuse [
    i64 10, label %is
    i64 11, label %type
    i64 12, label %equal
    i64 13, label %int
    i64 14, label %length
    i64 15, label %array
    i64 16, label %same
    i64 17, label %differ
    i64 18, label %disjoint
    i64 19, label %relation
    i64 20, label %call
    i64 21, label %present
    i64 22, label %keep
    i64 23, label %float
  ]
refuse:
  ret i1 false
is:
  %ris = icmp eq ptr %x, %bp
  br label %judge
type:
  %t = call ptr @typeof(ptr %x)
  %rtype = icmp eq ptr %t, %bp
  br label %judge
equal:
  %requal = call i1 @guard_equal(ptr %x, ptr %bp, i64 %c)
  br label %judge
int:
  %rint = call i1 @guard_int(ptr %x, i64 %b)
  br label %judge
length:
  %rlength = call i1 @guard_length(ptr %x, i64 %b, ptr %cp)
  br label %judge
array:
  %g = getelementptr i64, ptr %table, i64 %b
  %rarray = call i1 @guard_array(ptr %x, ptr %g)
  br label %judge
same:
  %y1 = call ptr @wp(ptr %regs, i64 %b)
  %rsame = icmp eq ptr %x, %y1
  br label %judge
differ:
  %y2 = call ptr @wp(ptr %regs, i64 %b)
  %rdiffer = icmp ne ptr %x, %y2
  br label %judge
disjoint:
  %y3 = call ptr @wp(ptr %regs, i64 %b)
  %rdisjoint = call i1 @guard_disjoint(ptr %x, ptr %y3)
  br label %judge
relation:
  %code = getelementptr i64, ptr %table, i64 %b
  %rrelation = call i1 @guard_relation(ptr %code, i64 %c, ptr %regs)
  br label %judge
call:
  %rcall = call i1 @guard_call(ptr %bp, ptr %params, i64 %nparams)
  br label %judge
present:
  %there = icmp ne ptr %x, null
  %should = icmp ne i64 %b, 0
  %rpresent = icmp eq i1 %there, %should
  br label %judge
float:
  %rfloat = call i1 @guard_float(ptr %step, ptr %regs)
  br label %judge
keep:
  ; part of the result: held until then, whatever other threads do to the place it was found
  %slot = getelementptr ptr, ptr %owned, i64 %ra
  %had = load ptr, ptr %slot
  %already = icmp ne ptr %had, null
  br i1 %already, label %next, label %take
take:
  call void @Py_IncRef(ptr %x)
  store ptr %x, ptr %slot
  br label %next
judge:
  %ok = phi i1 [ %got, %get ], [ %ris, %is ], [ %rtype, %type ], [ %requal, %equal ], [ %rint, %int ],
               [ %rlength, %length ], [ %rarray, %array ], [ %rsame, %same ], [ %rdiffer, %differ ],
               [ %rdisjoint, %disjoint ], [ %rrelation, %relation ], [ %rcall, %call ], [ %rpresent, %present ],
               [ %rfloat, %float ]
  br i1 %ok, label %next, label %refuse
next:
  %i1 = add i64 %i, 1
  br label %loop
}
"""

_RUN = """
; A runtime number as its bytes: a Python float or complex, or a NumPy scalar.
define internal i1 @number(ptr %o, ptr %out, i64 %itemsize, ptr %generic) {
entry:
  %t = call ptr @typeof(ptr %o)
  %value = call ptr @at(ptr %o, i64 16)
  %f = icmp eq ptr %t, @PyFloat_Type
  br i1 %f, label %float, label %second
float:
  %fv = load i64, ptr %value
  store i64 %fv, ptr %out
  %f8 = icmp eq i64 %itemsize, 8
  ret i1 %f8
second:
  %c = icmp eq ptr %t, @PyComplex_Type
  br i1 %c, label %complex, label %third
complex:
  %re = load i64, ptr %value
  store i64 %re, ptr %out
  %ip = call ptr @at(ptr %o, i64 24)
  %im = load i64, ptr %ip
  %op = call ptr @at(ptr %out, i64 8)
  store i64 %im, ptr %op
  %c16 = icmp eq i64 %itemsize, 16
  ret i1 %c16
third:
  %s = call i1 @isa(ptr %o, ptr %generic)
  br i1 %s, label %scalar, label %no
scalar:
  call void @PyArray_ScalarAsCtype(ptr %o, ptr %out)
  ret i1 true
no:
  ret i1 false
}

define internal i1 @gather(ptr %table, ptr %frame, ptr %regs, ptr %owned) {
entry:
  %offset = call i64 @w(ptr %table, i64 $T_INPUTS)
  %first = getelementptr i64, ptr %table, i64 %offset
  %count = call i64 @w(ptr %table, i64 $T_NINPUTS)
  %inso = call i64 @w(ptr %table, i64 $T_INS)
  %ins = call ptr @at(ptr %frame, i64 %inso)
  %scratcho = call i64 @w(ptr %table, i64 $T_SCRATCH)
  %scratch = call ptr @at(ptr %frame, i64 %scratcho)
  %generic = call ptr @wp(ptr %table, i64 $T_GENERIC)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %yes, label %one
one:
  %at0 = mul i64 %i, 3
  %rec = getelementptr i64, ptr %first, i64 %at0
  %kind = call i64 @w(ptr %rec, i64 0)
  %reg = call i64 @w(ptr %rec, i64 1)
  %extra = call i64 @w(ptr %rec, i64 2)
  %o = call ptr @wp(ptr %regs, i64 %reg)
  %in = getelementptr %bl.array, ptr %ins, i64 %i
  %so = mul i64 %i, 16
  %cell = call ptr @at(ptr %scratch, i64 %so)
  %none = icmp eq ptr %o, null
  br i1 %none, label %no, label %choose
choose:
  switch i64 %kind, label %no [
    i64 0, label %array
    i64 1, label %scalar
    i64 2, label %int
    i64 3, label %size
    i64 4, label %extension
  ]
array:
  %is = call i1 @isa(ptr %o, ptr @PyArray_Type)
  br i1 %is, label %fill, label %no
fill:
  %data = call ptr @field(ptr %o, i64 16)
  store ptr %data, ptr %in
  %n = call i32 @ndim(ptr %o)
  %np = getelementptr %bl.array, ptr %in, i64 0, i32 1
  store i32 %n, ptr %np
  %dims = call ptr @field(ptr %o, i64 32)
  %dp = getelementptr %bl.array, ptr %in, i64 0, i32 3
  store ptr %dims, ptr %dp
  %strides = call ptr @field(ptr %o, i64 40)
  %sp = getelementptr %bl.array, ptr %in, i64 0, i32 4
  store ptr %strides, ptr %sp
  ; held, so that no other thread can free or resize it while the kernels run without the GIL
  %slot = getelementptr ptr, ptr %owned, i64 %reg
  %had = load ptr, ptr %slot
  %held = icmp ne ptr %had, null
  br i1 %held, label %next, label %hold
hold:
  call void @Py_IncRef(ptr %o)
  store ptr %o, ptr %slot
  br label %next
scalar:
  %nok = call i1 @number(ptr %o, ptr %cell, i64 %extra, ptr %generic)
  br label %point
extension:
  ; a scalar of a dtype that NumPy does not know itself: its address comes back, not its value
  %eok = call i1 @isa(ptr %o, ptr %generic)
  br i1 %eok, label %reach, label %no
reach:
  call void @PyArray_ScalarAsCtype(ptr %o, ptr %cell)
  %value = load ptr, ptr %cell
  %half = load i16, ptr %value
  store i16 %half, ptr %cell
  br label %point
int:
  %iok = call i1 @integer(ptr %o, ptr %cell)
  br label %point
size:
  %zok = call i1 @size_of(ptr %o, i64 %extra, ptr %cell)
  br label %point
point:
  %ok = phi i1 [ %nok, %scalar ], [ %iok, %int ], [ %zok, %size ], [ true, %reach ]
  store ptr %cell, ptr %in
  br i1 %ok, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; The output records before planning: shape and strides point into the frame.
define internal void @prepare(ptr %table, ptr %frame, ptr %outs) {
entry:
  %offset = call i64 @w(ptr %table, i64 $T_OUTPUTS)
  %first = getelementptr i64, ptr %table, i64 %offset
  %count = call i64 @w(ptr %table, i64 $T_NOUTPUTS)
  %dimso = call i64 @w(ptr %table, i64 $T_DIMS)
  %dims0 = call ptr @at(ptr %frame, i64 %dimso)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %more ]
  %dims = phi ptr [ %dims0, %entry ], [ %after, %more ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %done, label %more
more:
  %at0 = mul i64 %i, 4
  %rec = getelementptr i64, ptr %first, i64 %at0
  %n = call i64 @w(ptr %rec, i64 1)
  %n32 = trunc i64 %n to i32
  %out = getelementptr %bl.array, ptr %outs, i64 %i
  %np = getelementptr %bl.array, ptr %out, i64 0, i32 1
  store i32 %n32, ptr %np
  %dp = getelementptr %bl.array, ptr %out, i64 0, i32 3
  store ptr %dims, ptr %dp
  %strides = getelementptr i64, ptr %dims, i64 %n
  %sp = getelementptr %bl.array, ptr %out, i64 0, i32 4
  store ptr %strides, ptr %sp
  %after = getelementptr i64, ptr %strides, i64 %n
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret void
}

; A new array; large data comes from the block store, through NumPy's handler set around this call alone.
define internal ptr @new_array(ptr %descr, i64 %n, ptr %dims, ptr %strides, i32 %flags, i64 %itemsize, ptr %handler) {
entry:
  call void @Py_IncRef(ptr %descr)
  %n32 = trunc i64 %n to i32
  %count = call i64 @elements(ptr %dims, i64 %n)
  %bytes = mul i64 %count, %itemsize
  %large = icmp uge i64 %bytes, 1048576
  br i1 %large, label %special, label %plain
plain:
  %x = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %n32, ptr %dims, ptr %strides, ptr null,
                                      i32 %flags, ptr null)
  ret ptr %x
special:
  %old = call ptr @PyDataMem_SetHandler(ptr %handler)
  %unset = icmp eq ptr %old, null
  br i1 %unset, label %fail, label %make
fail:
  call void @Py_DecRef(ptr %descr)
  ret ptr null
make:
  %y = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %n32, ptr %dims, ptr %strides, ptr null,
                                      i32 %flags, ptr null)
  %ours = call ptr @PyDataMem_SetHandler(ptr %old)
  call void @Py_DecRef(ptr %old)
  call void @drop(ptr %ours)
  ret ptr %y
}

define internal i1 @allocate(ptr %table, ptr %frame, ptr %outs, ptr %objects) {
entry:
  %offset = call i64 @w(ptr %table, i64 $T_OUTPUTS)
  %first = getelementptr i64, ptr %table, i64 %offset
  %count = call i64 @w(ptr %table, i64 $T_NOUTPUTS)
  %nin = call i64 @w(ptr %table, i64 $T_NINPUTS)
  %handler = call ptr @wp(ptr %table, i64 $T_HANDLER)
  %scratcho = call i64 @w(ptr %table, i64 $T_SCRATCH)
  %scratch = call ptr @at(ptr %frame, i64 %scratcho)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %yes, label %one
one:
  %at0 = mul i64 %i, 4
  %rec = getelementptr i64, ptr %first, i64 %at0
  %descr = call ptr @wp(ptr %rec, i64 0)
  %n = call i64 @w(ptr %rec, i64 1)
  %itemsize = call i64 @w(ptr %rec, i64 2)
  %mode = call i64 @w(ptr %rec, i64 3)
  %out = getelementptr %bl.array, ptr %outs, i64 %i
  %scalar = icmp eq i64 %mode, 3
  br i1 %scalar, label %inframe, label %array
inframe:
  %number = add i64 %nin, %i
  %so = mul i64 %number, 16
  %cell = call ptr @at(ptr %scratch, i64 %so)
  store ptr %cell, ptr %out
  br label %next
array:
  %dp = getelementptr %bl.array, ptr %out, i64 0, i32 3
  %dims = load ptr, ptr %dp
  %sp = getelementptr %bl.array, ptr %out, i64 0, i32 4
  %strides = load ptr, ptr %sp
  %other = icmp eq i64 %mode, 2
  %given = select i1 %other, ptr %strides, ptr null
  %fortran = icmp eq i64 %mode, 1
  %flags = zext i1 %fortran to i32
  %x = call ptr @new_array(ptr %descr, i64 %n, ptr %dims, ptr %given, i32 %flags, i64 %itemsize, ptr %handler)
  %bad = icmp eq ptr %x, null
  br i1 %bad, label %no, label %keep
keep:
  %slot = getelementptr ptr, ptr %objects, i64 %i
  store ptr %x, ptr %slot
  %data = call ptr @field(ptr %x, i64 16)
  store ptr %data, ptr %out
  %xd = call ptr @field(ptr %x, i64 32)
  store ptr %xd, ptr %dp
  %xs = call ptr @field(ptr %x, i64 40)
  store ptr %xs, ptr %sp
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Elements of all array inputs and outputs: the measure of the work.
define internal i64 @work(ptr %table, ptr %ins, ptr %outs) {
entry:
  %nin = call i64 @w(ptr %table, i64 $T_NINPUTS)
  %nout = call i64 @w(ptr %table, i64 $T_NOUTPUTS)
  %total = add i64 %nin, %nout
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %more ]
  %sum = phi i64 [ 0, %entry ], [ %sum1, %more ]
  %end = icmp uge i64 %i, %total
  br i1 %end, label %done, label %more
more:
  %isin = icmp ult i64 %i, %nin
  %j = sub i64 %i, %nin
  %base = select i1 %isin, ptr %ins, ptr %outs
  %index = select i1 %isin, i64 %i, i64 %j
  %rec = getelementptr %bl.array, ptr %base, i64 %index
  %np = getelementptr %bl.array, ptr %rec, i64 0, i32 1
  %n = load i32, ptr %np
  %n64 = zext i32 %n to i64
  %dp = getelementptr %bl.array, ptr %rec, i64 0, i32 3
  %dims = load ptr, ptr %dp
  %count = call i64 @elements(ptr %dims, i64 %n64)
  %sum1 = add i64 %sum, %count
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret i64 %sum
}

define internal i32 @run(ptr %table, ptr %ctx, ptr %ins, ptr %outs) {
entry:
  %f = call ptr @wp(ptr %table, i64 $T_RUN)
  store ptr @bl_alloc, ptr %ctx
  %p1 = call ptr @at(ptr %ctx, i64 8)
  store ptr @bl_free, ptr %p1
  %p2 = call ptr @at(ptr %ctx, i64 16)
  store ptr @bl_parallel_for, ptr %p2
  %threads = call i64 @w(ptr %table, i64 $T_THREADS)
  %p3 = call ptr @at(ptr %ctx, i64 $C_THREADS)
  store i64 %threads, ptr %p3
  %p4 = call ptr @at(ptr %ctx, i64 $C_SITE)
  store i32 -1, ptr %p4
  %bound = call i64 @w(ptr %table, i64 $T_RELEASE)
  %never = icmp slt i64 %bound, 0
  br i1 %never, label %hold, label %measure
measure:
  %size = call i64 @work(ptr %table, ptr %ins, ptr %outs)
  %large = icmp uge i64 %size, %bound
  br i1 %large, label %release, label %hold
hold:
  %c1 = call i32 %f(ptr %ctx, ptr %ins, ptr %outs)
  ret i32 %c1
release:
  %state = call ptr @PyEval_SaveThread()
  %c2 = call i32 %f(ptr %ctx, ptr %ins, ptr %outs)
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %c2
}

define internal i1 @put_int(ptr %tuple, i64 %i, i64 %v) {
  %o = call ptr @PyLong_FromLongLong(i64 %v)
  %bad = icmp eq ptr %o, null
  br i1 %bad, label %no, label %set
set:
  %r = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %o)
  ret i1 true
no:
  ret i1 false
}

; Python makes and raises the exception: callable(code, site, payload 0 .. 3). An exception is set afterwards.
define internal void @report(ptr %table, ptr %ctx, i32 %code) {
entry:
  %t = call ptr @PyTuple_New(i64 6)
  %bad = icmp eq ptr %t, null
  br i1 %bad, label %done, label %fill
fill:
  %code64 = sext i32 %code to i64
  %sp = call ptr @at(ptr %ctx, i64 $C_SITE)
  %site = load i32, ptr %sp
  %site64 = sext i32 %site to i64
  %payload = call ptr @at(ptr %ctx, i64 $C_PAYLOAD)
  %v0 = call i64 @w(ptr %payload, i64 0)
  %v1 = call i64 @w(ptr %payload, i64 1)
  %v2 = call i64 @w(ptr %payload, i64 2)
  %v3 = call i64 @w(ptr %payload, i64 3)
  %r0 = call i1 @put_int(ptr %t, i64 0, i64 %code64)
  %r1 = call i1 @put_int(ptr %t, i64 1, i64 %site64)
  %r2 = call i1 @put_int(ptr %t, i64 2, i64 %v0)
  %r3 = call i1 @put_int(ptr %t, i64 3, i64 %v1)
  %r4 = call i1 @put_int(ptr %t, i64 4, i64 %v2)
  %r5 = call i1 @put_int(ptr %t, i64 5, i64 %v3)
  %a = and i1 %r0, %r1
  %b = and i1 %r2, %r3
  %c = and i1 %r4, %r5
  %d = and i1 %a, %b
  %ok = and i1 %c, %d
  br i1 %ok, label %call, label %drop
call:
  %f = call ptr @wp(ptr %table, i64 $T_ON_ERROR)
  %r = call ptr @PyObject_CallObject(ptr %f, ptr %t)
  call void @drop(ptr %r)
  br label %drop
drop:
  call void @Py_DecRef(ptr %t)
  br label %done
done:
  ret void
}
"""

_WRAP = """
; callable(tuple of output arrays, tuple of arguments)
define internal ptr @wrap_call(ptr %callable, ptr %objects, i64 %nout, ptr %params, i64 %nparams) {
entry:
  %outer = call ptr @PyTuple_New(i64 2)
  %bad = icmp eq ptr %outer, null
  br i1 %bad, label %fail, label %first
first:
  %a = call ptr @params_tuple(ptr %objects, i64 %nout)
  %abad = icmp eq ptr %a, null
  br i1 %abad, label %spill, label %second
second:
  %ra = call i32 @PyTuple_SetItem(ptr %outer, i64 0, ptr %a)
  %b = call ptr @params_tuple(ptr %params, i64 %nparams)
  %bbad = icmp eq ptr %b, null
  br i1 %bbad, label %spill, label %go
go:
  %rb = call i32 @PyTuple_SetItem(ptr %outer, i64 1, ptr %b)
  %r = call ptr @PyObject_CallObject(ptr %callable, ptr %outer)
  call void @Py_DecRef(ptr %outer)
  ret ptr %r
spill:
  call void @Py_DecRef(ptr %outer)
  br label %fail
fail:
  ret ptr null
}

; The last n values of the stack as a tuple or list, which takes them over; null with an error set.
define internal ptr @pack(i1 %list, ptr %values, i64 %n) {
entry:
  br i1 %list, label %newlist, label %newtuple
newlist:
  %l = call ptr @PyList_New(i64 %n)
  br label %made
newtuple:
  %t = call ptr @PyTuple_New(i64 %n)
  br label %made
made:
  %c = phi ptr [ %l, %newlist ], [ %t, %newtuple ]
  %bad = icmp eq ptr %c, null
  br i1 %bad, label %done, label %loop
loop:
  %i = phi i64 [ 0, %made ], [ %i1, %next ]
  %end = icmp uge i64 %i, %n
  br i1 %end, label %done, label %one
one:
  %vp = getelementptr ptr, ptr %values, i64 %i
  %v = load ptr, ptr %vp
  store ptr null, ptr %vp
  br i1 %list, label %setlist, label %settuple
setlist:
  %r1 = call i32 @PyList_SetItem(ptr %c, i64 %i, ptr %v)
  br label %next
settuple:
  %r2 = call i32 @PyTuple_SetItem(ptr %c, i64 %i, ptr %v)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret ptr %c
}

define internal ptr @held(ptr %o) {
  call void @Py_IncRef(ptr %o)
  ret ptr %o
}

; A new reference for one value of the result; null with an error set.
define internal ptr @leaf(i64 %op, i64 %a, ptr %table, ptr %regs, ptr %outs, ptr %objects, ptr %params, i64 %nparams) {
entry:
  %ap = inttoptr i64 %a to ptr
  switch i64 %op, label %constant [
    i64 0, label %output
    i64 1, label %scalar
    i64 3, label %reg
    i64 6, label %float
    i64 7, label %complex
    i64 8, label %integer
    i64 9, label %bool
    i64 10, label %wrap
  ]
constant:
  %rc = call ptr @held(ptr %ap)
  ret ptr %rc
output:
  %oo = call ptr @wp(ptr %objects, i64 %a)
  %ro = call ptr @held(ptr %oo)
  ret ptr %ro
reg:
  %or = call ptr @wp(ptr %regs, i64 %a)
  %rr = call ptr @held(ptr %or)
  ret ptr %rr
scalar:
  %sd = call ptr @cell_of(ptr %outs, i64 %a)
  %offset = call i64 @w(ptr %table, i64 $T_OUTPUTS)
  %at0 = mul i64 %a, 4
  %at1 = add i64 %at0, %offset
  %descr = call ptr @wp(ptr %table, i64 %at1)
  %rs = call ptr @PyArray_Scalar(ptr %sd, ptr %descr, ptr null)
  ret ptr %rs
float:
  %fd = call ptr @cell_of(ptr %outs, i64 %a)
  %fv = load double, ptr %fd
  %rf = call ptr @PyFloat_FromDouble(double %fv)
  ret ptr %rf
complex:
  %cd = call ptr @cell_of(ptr %outs, i64 %a)
  %re = load double, ptr %cd
  %ip = call ptr @at(ptr %cd, i64 8)
  %im = load double, ptr %ip
  %rx = call ptr @PyComplex_FromDoubles(double %re, double %im)
  ret ptr %rx
integer:
  %id = call ptr @cell_of(ptr %outs, i64 %a)
  %iv = load i64, ptr %id
  %ri = call ptr @PyLong_FromLongLong(i64 %iv)
  ret ptr %ri
bool:
  %bd = call ptr @cell_of(ptr %outs, i64 %a)
  %bv = load i8, ptr %bd
  %b64 = zext i8 %bv to i64
  %rb = call ptr @PyBool_FromLong(i64 %b64)
  ret ptr %rb
wrap:
  %nout = call i64 @w(ptr %table, i64 $T_NOUTPUTS)
  %rw = call ptr @wrap_call(ptr %ap, ptr %objects, i64 %nout, ptr %params, i64 %nparams)
  ret ptr %rw
}

define internal ptr @cell_of(ptr %outs, i64 %k) alwaysinline {
  %out = getelementptr %bl.array, ptr %outs, i64 %k
  %data = load ptr, ptr %out
  ret ptr %data
}

define internal ptr @result(ptr %table, ptr %frame, ptr %regs, ptr %outs, ptr %objects, ptr %params, i64 %nparams) {
entry:
  %offset = call i64 @w(ptr %table, i64 $T_RECIPE)
  %first = getelementptr i64, ptr %table, i64 %offset
  %count = call i64 @w(ptr %table, i64 $T_NRECIPE)
  %stacko = call i64 @w(ptr %table, i64 $T_STACK)
  %stack = call ptr @at(ptr %frame, i64 %stacko)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %push ]
  %top = phi i64 [ 0, %entry ], [ %top1, %push ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %done, label %one
done:
  %r = load ptr, ptr %stack
  ret ptr %r
one:
  %at0 = mul i64 %i, 2
  %rec = getelementptr i64, ptr %first, i64 %at0
  %op = call i64 @w(ptr %rec, i64 0)
  %a = call i64 @w(ptr %rec, i64 1)
  %istuple = icmp eq i64 %op, 4
  %islist = icmp eq i64 %op, 5
  %container = or i1 %istuple, %islist
  br i1 %container, label %build, label %single
build:
  %below = sub i64 %top, %a
  %values = getelementptr ptr, ptr %stack, i64 %below
  %c = call ptr @pack(i1 %islist, ptr %values, i64 %a)
  br label %made
single:
  %v = call ptr @leaf(i64 %op, i64 %a, ptr %table, ptr %regs, ptr %outs, ptr %objects, ptr %params, i64 %nparams)
  br label %made
made:
  %value = phi ptr [ %c, %build ], [ %v, %single ]
  %place = phi i64 [ %below, %build ], [ %top, %single ]
  %bad = icmp eq ptr %value, null
  br i1 %bad, label %unwind, label %push
push:
  %slot = getelementptr ptr, ptr %stack, i64 %place
  store ptr %value, ptr %slot
  %top1 = add i64 %place, 1
  %i1 = add i64 %i, 1
  br label %loop
unwind:
  call void @release(ptr %stack, i64 %top)
  ret ptr null
}

define internal void @release(ptr %objects, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %more ]
  %end = icmp uge i64 %i, %n
  br i1 %end, label %done, label %more
more:
  %o = call ptr @wp(ptr %objects, i64 %i)
  call void @drop(ptr %o)
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret void
}
"""

_ENTRY = """
; One specialisation: false when its guards do not hold, else *result (null with an error set).
define internal i1 @attempt(ptr %table, ptr %params, i64 %nparams, ptr %result) {
entry:
  %bytes = call i64 @w(ptr %table, i64 $T_FRAME)
  %frame = alloca i8, i64 %bytes, align 16
  %zeroed = call i64 @w(ptr %table, i64 $T_ZEROED)
  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 %zeroed, i1 false)
  %regso = call i64 @w(ptr %table, i64 $T_REGS)
  %regs = call ptr @at(ptr %frame, i64 %regso)
  %ownedo = call i64 @w(ptr %table, i64 $T_OWNED)
  %owned = call ptr @at(ptr %frame, i64 %ownedo)
  %nregs = call i64 @w(ptr %table, i64 $T_NREGS)
  %nout = call i64 @w(ptr %table, i64 $T_NOUTPUTS)
  %objectso = call i64 @w(ptr %table, i64 $T_OBJECTS)
  %objects = call ptr @at(ptr %frame, i64 %objectso)
  store ptr null, ptr %result
  %hold = call i1 @steps(ptr %table, ptr %regs, ptr %owned, ptr %params, i64 %nparams)
  br i1 %hold, label %inputs, label %miss
miss:
  call void @release(ptr %owned, i64 %nregs)
  ret i1 false
inputs:
  %whole = call i1 @gather(ptr %table, ptr %frame, ptr %regs, ptr %owned)
  br i1 %whole, label %hit, label %miss
hit:
  %hits = call ptr @wp(ptr %table, i64 $T_HITS)
  %h = load i64, ptr %hits
  %h1 = add i64 %h, 1
  store i64 %h1, ptr %hits
  %inso = call i64 @w(ptr %table, i64 $T_INS)
  %ins = call ptr @at(ptr %frame, i64 %inso)
  %outso = call i64 @w(ptr %table, i64 $T_OUTS)
  %outs = call ptr @at(ptr %frame, i64 %outso)
  %ctxo = call i64 @w(ptr %table, i64 $T_CTX)
  %ctx = call ptr @at(ptr %frame, i64 %ctxo)
  call void @prepare(ptr %table, ptr %frame, ptr %outs)
  %plan = call ptr @wp(ptr %table, i64 $T_PLAN)
  %planned = call i32 %plan(ptr %ins, ptr %outs)
  %pok = icmp eq i32 %planned, 0
  br i1 %pok, label %make, label %planfail
planfail:
  %ps = call ptr @at(ptr %ctx, i64 $C_SITE)
  store i32 -2, ptr %ps
  call void @report(ptr %table, ptr %ctx, i32 %planned)
  br label %finish
make:
  %made = call i1 @allocate(ptr %table, ptr %frame, ptr %outs, ptr %objects)
  br i1 %made, label %go, label %finish
go:
  %code = call i32 @run(ptr %table, ptr %ctx, ptr %ins, ptr %outs)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %wrap, label %fail
fail:
  call void @report(ptr %table, ptr %ctx, i32 %code)
  br label %finish
wrap:
  %r = call ptr @result(ptr %table, ptr %frame, ptr %regs, ptr %outs, ptr %objects, ptr %params, i64 %nparams)
  store ptr %r, ptr %result
  br label %finish
finish:
  call void @release(ptr %objects, i64 %nout)
  call void @release(ptr %owned, i64 %nregs)
  ret i1 true
}

; Index of the parameter with this name, or -1: names are interned as a rule, compared when they are not.
define internal i64 @parameter(ptr %header, ptr %name) {
entry:
  %first = call i64 @w(ptr %header, i64 $H_POSONLY)
  %n = call i64 @w(ptr %header, i64 $H_PARAMS)
  %names = getelementptr ptr, ptr %header, i64 $H_NAMES
  br label %fast
fast:
  %i = phi i64 [ %first, %entry ], [ %i1, %fnext ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %slow, label %ftest
ftest:
  %p = call ptr @wp(ptr %names, i64 %i)
  %same = icmp eq ptr %p, %name
  br i1 %same, label %found, label %fnext
fnext:
  %i1 = add i64 %i, 1
  br label %fast
found:
  ret i64 %i
slow:
  %j = phi i64 [ %first, %fast ], [ %j1, %snext ]
  %send = icmp sge i64 %j, %n
  br i1 %send, label %none, label %stest
stest:
  %q = call ptr @wp(ptr %names, i64 %j)
  %c = call i32 @PyUnicode_Compare(ptr %q, ptr %name)
  %equal = icmp eq i32 %c, 0
  br i1 %equal, label %sfound, label %snext
snext:
  %j1 = add i64 %j, 1
  br label %slow
sfound:
  ret i64 %j
none:
  call void @PyErr_Clear()
  ret i64 -1
}

; The default of parameter i, borrowed, or null.
define internal ptr @default_of(ptr %header, i64 %i) {
entry:
  %function = call ptr @wp(ptr %header, i64 $H_FUNCTION)
  %positional = call i64 @w(ptr %header, i64 $H_POSITIONAL)
  %keyword = icmp sge i64 %i, %positional
  br i1 %keyword, label %kw, label %pos
kw:
  %d = call ptr @PyFunction_GetKwDefaults(ptr %function)
  %nokw = icmp eq ptr %d, null
  br i1 %nokw, label %none, label %kwget
kwget:
  %at0 = add i64 %i, $H_NAMES
  %name = call ptr @wp(ptr %header, i64 %at0)
  %v = call ptr @lookup(ptr %d, ptr %name)
  ret ptr %v
pos:
  %t = call ptr @PyFunction_GetDefaults(ptr %function)
  %nopos = icmp eq ptr %t, null
  br i1 %nopos, label %none, label %count
count:
  %nd = call i64 @PyTuple_Size(ptr %t)
  %skip = sub i64 %positional, %nd
  %k = sub i64 %i, %skip
  %missing = icmp slt i64 %k, 0
  br i1 %missing, label %none, label %get
get:
  %pv = call ptr @PyTuple_GetItem(ptr %t, i64 %k)
  ret ptr %pv
none:
  ret ptr null
}

; The extra positional arguments as a new tuple in params[n]; false with an error set.
define internal i1 @extra(ptr %args, i64 %nargs, i64 %positional, ptr %place) {
entry:
  %over = sub i64 %nargs, %positional
  %n = call i64 @llvm.smax.i64(i64 %over, i64 0)
  %from = getelementptr ptr, ptr %args, i64 %positional
  %t = call ptr @params_tuple(ptr %from, i64 %n)
  store ptr %t, ptr %place
  %ok = icmp ne ptr %t, null
  ret i1 %ok
}

; Binds a call's arguments to the parameters, borrowed, but for *args and defaults, which are owned. False: Python
; decides.
define internal i1 @bind(ptr %header, ptr %args, i64 %nargs, ptr %kwnames, ptr %params) {
entry:
  %n = call i64 @w(ptr %header, i64 $H_PARAMS)
  %positional = call i64 @w(ptr %header, i64 $H_POSITIONAL)
  %varargs = call i64 @w(ptr %header, i64 $H_VARARGS)
  %isvar = icmp ne i64 %varargs, 0
  %tail = getelementptr ptr, ptr %params, i64 %n
  %function = call ptr @wp(ptr %header, i64 $H_FUNCTION)
  %code = call ptr @PyFunction_GetCode(ptr %function)
  %known = call ptr @wp(ptr %header, i64 $H_CODE)
  %same = icmp eq ptr %code, %known
  %fits = icmp sle i64 %nargs, %positional
  %room = or i1 %fits, %isvar
  %may = and i1 %same, %room
  br i1 %may, label %collect, label %no
collect:
  br i1 %isvar, label %more, label %direct
more:
  %ex = call i1 @extra(ptr %args, i64 %nargs, i64 %positional, ptr %tail)
  br i1 %ex, label %direct, label %clear
clear:
  call void @PyErr_Clear()
  br label %no
direct:
  %given = call i64 @llvm.smin.i64(i64 %nargs, i64 %positional)
  br label %copy
copy:
  %i = phi i64 [ 0, %direct ], [ %i1, %put ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %keywords, label %pick
pick:
  %have = icmp slt i64 %i, %given
  br i1 %have, label %take, label %put
take:
  %a = call ptr @wp(ptr %args, i64 %i)
  br label %put
put:
  %v = phi ptr [ null, %pick ], [ %a, %take ]
  %slot = getelementptr ptr, ptr %params, i64 %i
  store ptr %v, ptr %slot
  %i1 = add i64 %i, 1
  br label %copy
keywords:
  %nokw = icmp eq ptr %kwnames, null
  br i1 %nokw, label %defaults, label %kwcount
kwcount:
  %nk = call i64 @PyTuple_Size(ptr %kwnames)
  br label %kw
kw:
  %k = phi i64 [ 0, %kwcount ], [ %k1, %kwput ]
  %kend = icmp sge i64 %k, %nk
  br i1 %kend, label %defaults, label %kwone
kwone:
  %name = call ptr @PyTuple_GetItem(ptr %kwnames, i64 %k)
  %at0 = call i64 @parameter(ptr %header, ptr %name)
  %unknown = icmp slt i64 %at0, 0
  br i1 %unknown, label %no, label %kwslot
kwslot:
  %ks = getelementptr ptr, ptr %params, i64 %at0
  %old = load ptr, ptr %ks
  %twice = icmp ne ptr %old, null
  br i1 %twice, label %no, label %kwput
kwput:
  %ka = add i64 %nargs, %k
  %kv = call ptr @wp(ptr %args, i64 %ka)
  store ptr %kv, ptr %ks
  %k1 = add i64 %k, 1
  br label %kw
defaults:
  br label %fill
fill:
  %f = phi i64 [ 0, %defaults ], [ %f1, %fnext ]
  %fend = icmp sge i64 %f, %n
  br i1 %fend, label %yes, label %ftest
ftest:
  %fs = getelementptr ptr, ptr %params, i64 %f
  %fv = load ptr, ptr %fs
  %empty = icmp eq ptr %fv, null
  br i1 %empty, label %fget, label %fnext
fget:
  %d = call ptr @default_of(ptr %header, i64 %f)
  store ptr %d, ptr %fs
  %nod = icmp eq ptr %d, null
  br i1 %nod, label %no, label %hold
hold:
  ; the function may get other defaults while the call runs
  call void @Py_IncRef(ptr %d)
  %own0 = add i64 %n, 1
  %own1 = add i64 %own0, %f
  %own = getelementptr ptr, ptr %params, i64 %own1
  store ptr %d, ptr %own
  br label %fnext
fnext:
  %f1 = add i64 %f, 1
  br label %fill
yes:
  ret i1 true
no:
  ret i1 false
}

; on_miss(args, kwargs)
define internal ptr @ask_python(ptr %header, ptr %args, i64 %nargs, ptr %kwnames) {
entry:
  %outer = call ptr @PyTuple_New(i64 2)
  %obad = icmp eq ptr %outer, null
  br i1 %obad, label %fail, label %positional
positional:
  %a = call ptr @params_tuple(ptr %args, i64 %nargs)
  %abad = icmp eq ptr %a, null
  br i1 %abad, label %spill, label %keywords
keywords:
  %ra = call i32 @PyTuple_SetItem(ptr %outer, i64 0, ptr %a)
  %d = call ptr @PyDict_New()
  %dbad = icmp eq ptr %d, null
  br i1 %dbad, label %spill, label %given
given:
  %rd = call i32 @PyTuple_SetItem(ptr %outer, i64 1, ptr %d)
  %none = icmp eq ptr %kwnames, null
  br i1 %none, label %call, label %count
count:
  %nk = call i64 @PyTuple_Size(ptr %kwnames)
  br label %loop
loop:
  %k = phi i64 [ 0, %count ], [ %k1, %next ]
  %end = icmp sge i64 %k, %nk
  br i1 %end, label %call, label %one
one:
  %name = call ptr @PyTuple_GetItem(ptr %kwnames, i64 %k)
  %ka = add i64 %nargs, %k
  %v = call ptr @wp(ptr %args, i64 %ka)
  %s = call i32 @PyDict_SetItem(ptr %d, ptr %name, ptr %v)
  %sbad = icmp slt i32 %s, 0
  br i1 %sbad, label %spill, label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
call:
  %f = call ptr @wp(ptr %header, i64 $H_ON_MISS)
  %r = call ptr @PyObject_CallObject(ptr %f, ptr %outer)
  call void @Py_DecRef(ptr %outer)
  ret ptr %r
spill:
  call void @Py_DecRef(ptr %outer)
  br label %fail
fail:
  ret ptr null
}

define ptr @bl_entry(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) {
entry:
  %result = alloca ptr
  %hb = call ptr @PyList_GetItem(ptr %self, i64 0)
  %header = call ptr @PyBytes_AsString(ptr %hb)
  %n = call i64 @w(ptr %header, i64 $H_PARAMS)
  ; n parameters, *args, and the references to defaults that this call holds
  %half = add i64 %n, 1
  %slots = add i64 %half, %n
  %params = alloca ptr, i64 %slots
  %size = mul i64 %slots, 8
  call void @llvm.memset.p0.i64(ptr %params, i8 0, i64 %size, i1 false)
  %chain = call ptr @PyList_GetItem(ptr %self, i64 1)
  call void @Py_IncRef(ptr %chain)
  %varargs = call i64 @w(ptr %header, i64 $H_VARARGS)
  %visible = add i64 %n, %varargs
  %bound = call i1 @bind(ptr %header, ptr %args, i64 %nargs, ptr %kwnames, ptr %params)
  br i1 %bound, label %walk, label %miss
walk:
  %lb = call ptr @PyTuple_GetItem(ptr %chain, i64 0)
  %list = call ptr @PyBytes_AsString(ptr %lb)
  %count = call i64 @w(ptr %list, i64 0)
  br label %loop
loop:
  %i = phi i64 [ 1, %walk ], [ %i1, %next ]
  %end = icmp sgt i64 %i, %count
  br i1 %end, label %miss, label %try
try:
  %table = call ptr @wp(ptr %list, i64 %i)
  %served = call i1 @attempt(ptr %table, ptr %params, i64 %visible, ptr %result)
  br i1 %served, label %answer, label %next
next:
  %i1 = add i64 %i, 1
  br label %loop
answer:
  %r = load ptr, ptr %result
  br label %leave
miss:
  %m = call ptr @ask_python(ptr %header, ptr %args, i64 %nargs, ptr %kwnames)
  br label %leave
leave:
  %value = phi ptr [ %r, %answer ], [ %m, %miss ]
  %tail = getelementptr ptr, ptr %params, i64 %n
  call void @release(ptr %tail, i64 %half)
  call void @Py_DecRef(ptr %chain)
  ret ptr %value
}
"""

_DECLARATIONS = """
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyCell_Get(ptr)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare void @PyErr_Clear()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetGlobals(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i64 @PyList_Size(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyModule_GetDict(ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_GenericGetAttr(ptr, ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i64 @PyObject_Size(ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare i32 @PyUnicode_Compare(ptr, ptr)
declare ptr @PyBool_FromLong(i64)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare ptr @_PyType_Lookup(ptr, ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare void @PyArray_ScalarAsCtype(ptr, ptr)
declare ptr @PyDataMem_SetHandler(ptr)
declare ptr @bl_alloc(ptr, i64)
declare void @bl_free(ptr, ptr, i64)
declare i32 @bl_parallel_for(ptr, ptr, ptr, i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def entry_text() -> str:
    """The LLVM IR of the native entry. It defines `bl_entry`."""
    objects = "".join(f"@{name} = external global i8\n" for name in (*PYTHON_OBJECTS, *NUMPY_OBJECTS))
    text = _DECLARATIONS + objects + _HELPERS + _FETCH + _GUARDS + _RUN + _WRAP + _ENTRY
    values = {f"T_{name}": i for i, name in enumerate(TABLE)} | {f"H_{name}": i for i, name in enumerate(HEADER)}
    values |= {"DEPTH": RPN_DEPTH, "C_THREADS": abi.CTX_THREADS, "C_SITE": abi.ERROR_SITE}
    values |= {"C_PAYLOAD": abi.ERROR_PAYLOAD}
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", str(values[name]))
    return text
