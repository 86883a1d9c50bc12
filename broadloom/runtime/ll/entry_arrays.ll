; Guards on arrays: dtype, rank, layout, sizes, strides, and the bytes that two arrays touch.

; Whether two elements of a strided array may share memory, as capture.guards.overlaps_itself says: going through the
; axes by rising stride, each must step over all that the smaller ones reach.
define internal i1 @overlaps_itself(ptr %dims, ptr %strides, i64 %nd, i64 %itemsize) {
entry:
  %count = call i64 @elements(ptr %dims, i64 %nd)
  %few = icmp slt i64 %count, 2
  br i1 %few, label %no, label %pass
pass:
  %used = phi i64 [ 0, %entry ], [ %used1, %step ]
  %reach = phi i64 [ %itemsize, %entry ], [ %reach1, %step ]
  br label %scan
scan:
  %k = phi i64 [ 0, %pass ], [ %k1, %next ]
  %best = phi i64 [ -1, %pass ], [ %best1, %next ]
  %least = phi i64 [ 9223372036854775807, %pass ], [ %least1, %next ]
  %end = icmp uge i64 %k, %nd
  br i1 %end, label %chosen, label %next
next:
  %n = call i64 @w(ptr %dims, i64 %k)
  %s = call i64 @w(ptr %strides, i64 %k)
  %m = call i64 @llvm.abs.i64(i64 %s, i1 false)
  %moved = lshr i64 %used, %k
  %bit = and i64 %moved, 1
  %fresh = icmp eq i64 %bit, 0
  %long = icmp sgt i64 %n, 1
  %smaller = icmp slt i64 %m, %least
  %candidate = and i1 %fresh, %long
  %take = and i1 %candidate, %smaller
  %best1 = select i1 %take, i64 %k, i64 %best
  %least1 = select i1 %take, i64 %m, i64 %least
  %k1 = add i64 %k, 1
  br label %scan
chosen:
  %none = icmp slt i64 %best, 0
  br i1 %none, label %no, label %judge
judge:
  %inside = icmp slt i64 %least, %reach
  br i1 %inside, label %yes, label %step
step:
  %size = call i64 @w(ptr %dims, i64 %best)
  %less = sub i64 %size, 1
  %far = mul i64 %least, %less
  %reach1 = add i64 %far, %reach
  %mark = shl i64 1, %best
  %used1 = or i64 %used, %mark
  br label %pass
yes:
  ret i1 true
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
  %u = or i1 %nounit, %unit
  %z = icmp eq i1 %wantzero, %zero
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
  br i1 %over, label %apart, label %pair
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
apart:
  br i1 %anyw, label %yes, label %overlap
overlap:
  %shared = call i1 @overlaps_itself(ptr %dims, ptr %strides, i64 %nd, i64 %itemsize)
  br i1 %shared, label %no, label %yes
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
