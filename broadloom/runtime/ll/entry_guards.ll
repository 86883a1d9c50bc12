; Guards: each op looks at registers and says whether the specialisation may serve the call.
; step = {op, a, b, c, d, e}

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

; A dict of exactly these keys in this order; all of `keys`, a tuple of n, are of type str.
define internal i1 @guard_keys(ptr %o, i64 %n, ptr %keys) {
entry:
  %position = alloca i64
  %place = alloca ptr
  %value = alloca ptr
  %long = call i1 @guard_length(ptr %o, i64 %n, ptr @PyDict_Type)
  store i64 0, ptr %position
  br i1 %long, label %loop, label %no
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %one
one:
  %more = call i32 @PyDict_Next(ptr %o, ptr %position, ptr %place, ptr %value)
  %over = icmp eq i32 %more, 0
  br i1 %over, label %no, label %test
test:
  %key = load ptr, ptr %place
  %want = call ptr @PyTuple_GetItem(ptr %keys, i64 %i)
  %same = icmp eq ptr %key, %want
  br i1 %same, label %next, label %kind
kind:
  %t = call ptr @typeof(ptr %key)
  %text = icmp eq ptr %t, @PyUnicode_Type
  br i1 %text, label %compare, label %no
compare:
  %c = call i32 @PyUnicode_Compare(ptr %key, ptr %want)
  %equal = icmp eq i32 %c, 0
  br i1 %equal, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
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

; Python decides: callable(arguments) is True. What it raises - Ctrl-C, what a signal handler raises - stays set.
define internal i1 @guard_call(ptr %callable, ptr %params, i64 %n) {
entry:
  %inner = call ptr @params_tuple(ptr %params, i64 %n)
  %bad = icmp eq ptr %inner, null
  br i1 %bad, label %no, label %pack
pack:
  %outer = call ptr @PyTuple_New(i64 1)
  %obad = icmp eq ptr %outer, null
  br i1 %obad, label %spill, label %ask
spill:
  call void @Py_DecRef(ptr %inner)
  br label %no
ask:
  %s = call i32 @PyTuple_SetItem(ptr %outer, i64 0, ptr %inner)
  %r = call ptr @PyObject_CallObject(ptr %callable, ptr %outer)
  call void @Py_DecRef(ptr %outer)
  %rbad = icmp eq ptr %r, null
  br i1 %rbad, label %no, label %answer
no:
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
    i64 24, label %keys
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
keys:
  %rkeys = call i1 @guard_keys(ptr %x, i64 %b, ptr %cp)
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
               [ %rfloat, %float ], [ %rkeys, %keys ]
  br i1 %ok, label %next, label %refuse
next:
  %i1 = add i64 %i, 1
  br label %loop
}
