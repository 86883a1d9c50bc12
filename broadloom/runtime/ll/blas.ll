; How many threads the library takes in our calls; see blas.py for what holds.

@bl.blas.lock = internal global i32 0
@bl.blas.inside = internal global i32 0 ; calls that run
@bl.blas.before = internal global i32 0 ; the count that they found
@bl.blas.given = internal global i32 0 ; the count that they gave

declare i32 @bl_blas_get()
declare void @bl_blas_set(i32)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @bl.blas.take() {
entry:
  br label %try
try:
  %held = atomicrmw xchg ptr @bl.blas.lock, i32 1 acquire
  %free = icmp eq i32 %held, 0
  br i1 %free, label %done, label %wait
wait:
  %seen = load atomic i32, ptr @bl.blas.lock monotonic, align 4
  %again = icmp eq i32 %seen, 0
  br i1 %again, label %try, label %wait
done:
  ret void
}

; What was found comes back, unless somebody else has set another count meanwhile.
define internal void @bl.blas.restore() {
entry:
  %before = load i32, ptr @bl.blas.before
  %given = load i32, ptr @bl.blas.given
  %changed = icmp ne i32 %before, %given
  br i1 %changed, label %look, label %done
look:
  %now = call i32 @bl_blas_get()
  %ours = icmp eq i32 %now, %given
  br i1 %ours, label %set, label %done
set:
  call void @bl_blas_set(i32 %before)
  br label %done
done:
  ret void
}

define void @bl_blas_enter(i64 %asked) {
entry:
  %least = call i64 @llvm.smax.i64(i64 %asked, i64 1)
  call void @bl.blas.take()
  %now = call i32 @bl_blas_get()
  %inside = load i32, ptr @bl.blas.inside
  %more = add i32 %inside, 1
  store i32 %more, ptr @bl.blas.inside
  %first = icmp eq i32 %inside, 0
  br i1 %first, label %found, label %weigh
found:
  store i32 %now, ptr @bl.blas.before
  store i32 %now, ptr @bl.blas.given
  br label %weigh
weigh:
  %now64 = sext i32 %now to i64
  %many = icmp sgt i64 %now64, %least
  br i1 %many, label %set, label %done
set:
  %count = trunc i64 %least to i32
  call void @bl_blas_set(i32 %count)
  store i32 %count, ptr @bl.blas.given
  br label %done
done:
  store atomic i32 0, ptr @bl.blas.lock release, align 4
  ret void
}

define void @bl_blas_leave() {
entry:
  call void @bl.blas.take()
  %inside = load i32, ptr @bl.blas.inside
  %less = sub i32 %inside, 1
  store i32 %less, ptr @bl.blas.inside
  %last = icmp eq i32 %less, 0
  br i1 %last, label %restore, label %done
restore:
  call void @bl.blas.restore()
  br label %done
done:
  store atomic i32 0, ptr @bl.blas.lock release, align 4
  ret void
}

; In a child of fork, only the thread that forked is left, and it was in no call.
define void @bl_blas_forked() {
entry:
  %inside = load i32, ptr @bl.blas.inside
  %some = icmp ne i32 %inside, 0
  store i32 0, ptr @bl.blas.inside
  store i32 0, ptr @bl.blas.lock
  br i1 %some, label %restore, label %done
restore:
  call void @bl.blas.restore()
  br label %done
done:
  ret void
}
