"""Small hand-written modules of the native ABI, for the tests of the entry."""

from functools import cache

from broadloom.runtime.link import link
from broadloom.runtime.target import emit_object, host

_TYPES = """
%array = type { ptr, i32, i32, ptr, ptr }
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

# One output with the shape of input 0: C order, as many axes.
_PLAN_LIKE_FIRST = """
define i32 @bl_plan(ptr %in, ptr %out) {
entry:
  %np = getelementptr %array, ptr %in, i64 0, i32 1
  %n = load i32, ptr %np
  %n64 = zext i32 %n to i64
  %fp = getelementptr %array, ptr %in, i64 0, i32 3
  %from = load ptr, ptr %fp
  %tp = getelementptr %array, ptr %out, i64 0, i32 3
  %to = load ptr, ptr %tp
  %bytes = mul i64 %n64, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %sp = getelementptr %array, ptr %out, i64 0, i32 4
  %strides = load ptr, ptr %sp
  %ip = getelementptr %array, ptr %in, i64 0, i32 4
  %instrides = load ptr, ptr %ip
  call void @llvm.memcpy.p0.p0.i64(ptr %strides, ptr %instrides, i64 %bytes, i1 false)
  ret i32 0
}
"""

_PLAN_NOTHING = "define i32 @bl_plan(ptr %in, ptr %out) {\n  ret i32 CODE\n}\n"

# out[i] = x[i] + y[i] * s over 1-d contiguous float64, s a 0-d float64; element i == -1.0 of x fails with site 0
_AXPY = """
define i32 @bl_run(ptr %ctx, ptr %in, ptr %out) {
entry:
  %x = load ptr, ptr %in
  %yp = getelementptr %array, ptr %in, i64 1
  %y = load ptr, ptr %yp
  %sp = getelementptr %array, ptr %in, i64 2
  %sq = load ptr, ptr %sp
  %s = load double, ptr %sq
  %z = load ptr, ptr %out
  %dp = getelementptr %array, ptr %out, i64 0, i32 3
  %dims = load ptr, ptr %dp
  %n = load i64, ptr %dims
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %ok ]
  %xp = getelementptr double, ptr %x, i64 %i
  %a = load double, ptr %xp
  %bad = fcmp oeq double %a, -1.0
  br i1 %bad, label %fail, label %ok
ok:
  %ypi = getelementptr double, ptr %y, i64 %i
  %b = load double, ptr %ypi
  %c = fmul double %b, %s
  %d = fadd double %a, %c
  %zp = getelementptr double, ptr %z, i64 %i
  store double %d, ptr %zp
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
fail:
  %site = getelementptr i8, ptr %ctx, i64 36
  store i32 0, ptr %site
  %p0 = getelementptr i8, ptr %ctx, i64 48
  store i64 %i, ptr %p0
  %p1 = getelementptr i8, ptr %ctx, i64 56
  store i64 %n, ptr %p1
  ret i32 1
}
"""

# Copies every input k to output k, BYTES[k] bytes each.
_COPY_STEP = """
  %ip{k} = getelementptr %array, ptr %in, i64 {k}
  %i{k} = load ptr, ptr %ip{k}
  %op{k} = getelementptr %array, ptr %out, i64 {k}
  %o{k} = load ptr, ptr %op{k}
  call void @llvm.memcpy.p0.p0.i64(ptr %o{k}, ptr %i{k}, i64 {n}, i1 false)"""


@cache
def axpy():
    return link([emit_object(_TYPES + _PLAN_LIKE_FIRST + _AXPY, host())])


@cache
def copies(*sizes, plan_code=0):
    steps = "".join(_COPY_STEP.format(k=k, n=n) for k, n in enumerate(sizes))
    run = f"define i32 @bl_run(ptr %ctx, ptr %in, ptr %out) {{{steps}\n  ret i32 0\n}}\n"
    return link([emit_object(_TYPES + _PLAN_NOTHING.replace("CODE", str(plan_code)) + run, host())])


@cache
def copy_like_first(itemsize):
    """One output with the shape and strides of input 0, holding its bytes (size of the first axis times itemsize)."""
    run = f"""
define i32 @bl_run(ptr %ctx, ptr %in, ptr %out) {{
  %i = load ptr, ptr %in
  %o = load ptr, ptr %out
  %np = getelementptr %array, ptr %in, i64 0, i32 1
  %n = load i32, ptr %np
  %dp = getelementptr %array, ptr %in, i64 0, i32 3
  %dims = load ptr, ptr %dp
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k1, %more ]
  %size = phi i64 [ {itemsize}, %0 ], [ %size1, %more ]
  %end = icmp sge i32 %k, %n
  br i1 %end, label %done, label %more
more:
  %p = getelementptr i64, ptr %dims, i32 %k
  %d = load i64, ptr %p
  %size1 = mul i64 %size, %d
  %k1 = add i32 %k, 1
  br label %loop
done:
  call void @llvm.memcpy.p0.p0.i64(ptr %o, ptr %i, i64 %size, i1 false)
  ret i32 0
}}
"""
    return link([emit_object(_TYPES + _PLAN_LIKE_FIRST + run, host())])
