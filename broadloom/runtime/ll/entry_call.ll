; Binding, and the walk over the chain of specialisations.

; One specialisation: false when its guards do not hold (or raised), else *result (null with an error set).
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

; The reference that params holds of **kwargs lies behind that of *args, if there is one.
define internal ptr @keywords_place(ptr %header, ptr %params) {
  %n = call i64 @w(ptr %header, i64 $H_PARAMS)
  %varargs = call i64 @w(ptr %header, i64 $H_VARARGS)
  %k = add i64 %n, %varargs
  %place = getelementptr ptr, ptr %params, i64 %k
  ret ptr %place
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

; Binds a call's arguments to the parameters, borrowed, but for *args, **kwargs and defaults, which are owned. False:
; Python decides.
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
  %varkeywords = call i64 @w(ptr %header, i64 $H_VARKEYWORDS)
  %isvarkw = icmp ne i64 %varkeywords, 0
  br i1 %isvarkw, label %open, label %begin
open:
  %place = call ptr @keywords_place(ptr %header, ptr %params)
  %dict = call ptr @PyDict_New()
  store ptr %dict, ptr %place
  %nodict = icmp eq ptr %dict, null
  br i1 %nodict, label %clear, label %begin
begin:
  %rest = phi ptr [ null, %direct ], [ %dict, %open ]
  %given = call i64 @llvm.smin.i64(i64 %nargs, i64 %positional)
  br label %copy
copy:
  %i = phi i64 [ 0, %begin ], [ %i1, %put ]
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
  %k = phi i64 [ 0, %kwcount ], [ %k1, %kwnext ]
  %kend = icmp sge i64 %k, %nk
  br i1 %kend, label %defaults, label %kwone
kwone:
  %name = call ptr @PyTuple_GetItem(ptr %kwnames, i64 %k)
  %at0 = call i64 @parameter(ptr %header, ptr %name)
  %ka = add i64 %nargs, %k
  %kv = call ptr @wp(ptr %args, i64 %ka)
  %unknown = icmp slt i64 %at0, 0
  br i1 %unknown, label %kwrest, label %kwslot
kwrest:
  br i1 %isvarkw, label %kwkeep, label %no
kwkeep:
  %kept = call i32 @PyDict_SetItem(ptr %rest, ptr %name, ptr %kv)
  %unkept = icmp slt i32 %kept, 0
  br i1 %unkept, label %clear, label %kwnext
kwslot:
  %ks = getelementptr ptr, ptr %params, i64 %at0
  %old = load ptr, ptr %ks
  %twice = icmp ne ptr %old, null
  br i1 %twice, label %no, label %kwput
kwput:
  store ptr %kv, ptr %ks
  br label %kwnext
kwnext:
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
  %own0 = add i64 %n, 2
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
  ; n parameters, *args, **kwargs, and the references to defaults that this call holds
  %half = add i64 %n, 2
  %slots = add i64 %half, %n
  %params = alloca ptr, i64 %slots
  %size = mul i64 %slots, 8
  call void @llvm.memset.p0.i64(ptr %params, i8 0, i64 %size, i1 false)
  %chain = call ptr @PyList_GetItem(ptr %self, i64 1)
  call void @Py_IncRef(ptr %chain)
  %varargs = call i64 @w(ptr %header, i64 $H_VARARGS)
  %varkeywords = call i64 @w(ptr %header, i64 $H_VARKEYWORDS)
  %collectors = add i64 %varargs, %varkeywords
  %visible = add i64 %n, %collectors
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
  br i1 %served, label %answer, label %failed
failed:
  %error = call ptr @PyErr_Occurred()
  %calm = icmp eq ptr %error, null
  br i1 %calm, label %next, label %leave
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
  %value = phi ptr [ %r, %answer ], [ %m, %miss ], [ null, %failed ]
  %tail = getelementptr ptr, ptr %params, i64 %n
  call void @release(ptr %tail, i64 %half)
  call void @Py_DecRef(ptr %chain)
  ret ptr %value
}
