; The result, from postfix code: {op, operand} pushes one value, packs the last ones, or calls something with the last.

; callable(value), which takes the value over; null with an error set.
define internal ptr @called(ptr %callable, ptr %value) {
entry:
  %args = call ptr @PyTuple_New(i64 1)
  %bad = icmp eq ptr %args, null
  br i1 %bad, label %fail, label %go
go:
  %set = call i32 @PyTuple_SetItem(ptr %args, i64 0, ptr %value)
  %r = call ptr @PyObject_CallObject(ptr %callable, ptr %args)
  call void @Py_DecRef(ptr %args)
  ret ptr %r
fail:
  call void @Py_DecRef(ptr %value)
  ret ptr null
}

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
  br i1 %container, label %build, label %other
other:
  %iscall = icmp eq i64 %op, 11
  br i1 %iscall, label %calling, label %single
calling:
  %last = sub i64 %top, 1
  %lastp = getelementptr ptr, ptr %stack, i64 %last
  %argument = load ptr, ptr %lastp
  store ptr null, ptr %lastp
  %callable = inttoptr i64 %a to ptr
  %x = call ptr @called(ptr %callable, ptr %argument)
  br label %made
build:
  %below = sub i64 %top, %a
  %values = getelementptr ptr, ptr %stack, i64 %below
  %c = call ptr @pack(i1 %islist, ptr %values, i64 %a)
  br label %made
single:
  %v = call ptr @leaf(i64 %op, i64 %a, ptr %table, ptr %regs, ptr %outs, ptr %objects, ptr %params, i64 %nparams)
  br label %made
made:
  %value = phi ptr [ %c, %build ], [ %x, %calling ], [ %v, %single ]
  %place = phi i64 [ %below, %build ], [ %last, %calling ], [ %top, %single ]
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
