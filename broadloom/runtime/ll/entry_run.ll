; Inputs, outputs, and the run of the module.

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
