; Fetching: each op puts an object (or null, when that is allowed) into a register, and a reference to it, but for
; arguments, into `owned`.
; step = {op, dst, a, b, c, optional}

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
  ; held, whatever other threads, or a collection that an allocation sets off, do to the place it was found; the
  ; caller holds the arguments
  %new = icmp ne ptr %own, null
  %given = icmp eq i64 %op, 1
  %safe = or i1 %new, %given
  %lent = xor i1 %safe, true
  %take = and i1 %lent, %there
  br i1 %take, label %hold, label %answer
hold:
  call void @Py_IncRef(ptr %v)
  store ptr %v, ptr %op2
  br label %answer
answer:
  %optional = call i64 @w(ptr %step, i64 5)
  %may = icmp ne i64 %optional, 0
  %ok = or i1 %there, %may
  ret i1 %ok
miss:
  ret i1 false
}
