; The store of large blocks. State page: lock, kept bytes, clock, allocations, reuses, releases, then slots
; {block, class, stamp}.

%bl.slot = type { ptr, i64, i64 }
%bl.store = type { i32, i32, i64, i64, i64, i64, i64, [$SLOTS x %bl.slot] }
@bl.store.page = internal global ptr null
@bl.store.limit = internal global i64 $LIMIT

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; A zeroed page that a child of fork finds zeroed again; null when the system has none.
define internal ptr @bl.wiped_page(ptr %place) {
entry:
  %now = load atomic ptr, ptr %place acquire, align 8
  %absent = icmp eq ptr %now, null
  br i1 %absent, label %make, label %have
have:
  ret ptr %now
make:
  %page = call ptr @mmap(ptr null, i64 4096, i32 3, i32 34, i32 -1, i64 0)
  %failed = icmp eq ptr %page, inttoptr (i64 -1 to ptr)
  br i1 %failed, label %none, label %mapped
none:
  ret ptr null
mapped:
  %advice = call i32 @madvise(ptr %page, i64 4096, i32 18)
  %refused = icmp ne i32 %advice, 0
  br i1 %refused, label %drop, label %publish
publish:
  %pair = cmpxchg ptr %place, ptr null, ptr %page acq_rel acquire
  %won = extractvalue { ptr, i1 } %pair, 1
  br i1 %won, label %mine, label %lost
mine:
  ret ptr %page
lost:
  %other = extractvalue { ptr, i1 } %pair, 0
  %r = call i32 @munmap(ptr %page, i64 4096)
  ret ptr %other
drop:
  %s = call i32 @munmap(ptr %page, i64 4096)
  ret ptr null
}

; A short try: whoever cannot have the lock does without the store.
define internal i1 @bl.store.lock(ptr %s) {
entry:
  %absent = icmp eq ptr %s, null
  br i1 %absent, label %no, label %try
try:
  %i = phi i32 [ 0, %entry ], [ %next, %again ]
  %pair = cmpxchg ptr %s, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %yes, label %again
again:
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, 1000
  br i1 %more, label %try, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @bl.store.unlock(ptr %s) {
  store atomic i32 0, ptr %s release, align 4
  ret void
}

define internal i64 @bl.class(i64 %size) {
  %less = sub i64 %size, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 false)
  %bits = sub i64 61, %zeros
  %step = shl i64 1, %bits
  %mask = sub i64 %step, 1
  %up = add i64 %size, %mask
  %inverse = xor i64 %mask, -1
  %class = and i64 %up, %inverse
  ret i64 %class
}

define internal void @bl.count(ptr %s, i64 %at) {
  %absent = icmp eq ptr %s, null
  br i1 %absent, label %done, label %add
add:
  %p = getelementptr i8, ptr %s, i64 %at
  %old = atomicrmw add ptr %p, i64 1 monotonic
  br label %done
done:
  ret void
}

; The youngest kept block of this class, taken out; null when there is none.
define internal ptr @bl.store.take(ptr %s, i64 %class) {
entry:
  %locked = call i1 @bl.store.lock(ptr %s)
  br i1 %locked, label %scan, label %nothing
nothing:
  ret ptr null
scan:
  %i = phi i64 [ 0, %entry ], [ %next, %scan ]
  %best = phi i64 [ -1, %entry ], [ %best1, %scan ]
  %young = phi i64 [ 0, %entry ], [ %young1, %scan ]
  %cp = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %i, i32 1
  %c = load i64, ptr %cp
  %tp = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %i, i32 2
  %t = load i64, ptr %tp
  %same = icmp eq i64 %c, %class
  %younger = icmp ugt i64 %t, %young
  %better = and i1 %same, %younger
  %best1 = select i1 %better, i64 %i, i64 %best
  %young1 = select i1 %better, i64 %t, i64 %young
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, $SLOTS
  br i1 %more, label %scan, label %scanned
scanned:
  %none = icmp slt i64 %best1, 0
  br i1 %none, label %empty, label %found
empty:
  call void @bl.store.unlock(ptr %s)
  ret ptr null
found:
  %slot = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %best1
  %block = load ptr, ptr %slot
  store %bl.slot zeroinitializer, ptr %slot
  %kp = getelementptr %bl.store, ptr %s, i64 0, i32 2
  %kept = load i64, ptr %kp
  %left = sub i64 %kept, %class
  store i64 %left, ptr %kp
  call void @bl.store.unlock(ptr %s)
  call void @bl.count(ptr %s, i64 32)
  ret ptr %block
}

; One pass over the slots: an empty one, or the occupied one with the oldest stamp.
define internal void @bl.store.survey(ptr %s, ptr %empty, ptr %oldest) {
entry:
  br label %scan
scan:
  %i = phi i64 [ 0, %entry ], [ %next, %scan ]
  %e = phi i64 [ -1, %entry ], [ %e1, %scan ]
  %o = phi i64 [ -1, %entry ], [ %o1, %scan ]
  %age = phi i64 [ -1, %entry ], [ %age1, %scan ]
  %cp = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %i, i32 1
  %c = load i64, ptr %cp
  %tp = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %i, i32 2
  %t = load i64, ptr %tp
  %free = icmp eq i64 %c, 0
  %e1 = select i1 %free, i64 %i, i64 %e
  %full = xor i1 %free, true
  %older = icmp ult i64 %t, %age
  %take = and i1 %full, %older
  %o1 = select i1 %take, i64 %i, i64 %o
  %age1 = select i1 %take, i64 %t, i64 %age
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, $SLOTS
  br i1 %more, label %scan, label %done
done:
  store i64 %e1, ptr %empty
  store i64 %o1, ptr %oldest
  ret void
}

; Keeps a block, making room by releasing the oldest; false when it cannot be kept.
define internal i1 @bl.store.keep(ptr %s, ptr %block, i64 %class) {
entry:
  %empty = alloca i64
  %oldest = alloca i64
  %limit = load atomic i64, ptr @bl.store.limit monotonic, align 8
  %large = icmp ugt i64 %class, %limit
  br i1 %large, label %no, label %try
try:
  %locked = call i1 @bl.store.lock(ptr %s)
  br i1 %locked, label %room, label %no
no:
  ret i1 false
room:
  call void @bl.store.survey(ptr %s, ptr %empty, ptr %oldest)
  %e = load i64, ptr %empty
  %kp = getelementptr %bl.store, ptr %s, i64 0, i32 2
  %kept = load i64, ptr %kp
  %sum = add i64 %kept, %class
  %over = icmp ugt i64 %sum, %limit
  %full = icmp slt i64 %e, 0
  %evict = or i1 %over, %full
  br i1 %evict, label %release, label %put
release:
  %o = load i64, ptr %oldest
  %slot = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %o
  %old = load ptr, ptr %slot
  %ocp = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %o, i32 1
  %oc = load i64, ptr %ocp
  store %bl.slot zeroinitializer, ptr %slot
  %less = sub i64 %kept, %oc
  store i64 %less, ptr %kp
  %r = call i32 @munmap(ptr %old, i64 %oc)
  call void @bl.count(ptr %s, i64 40)
  br label %room
put:
  %clockp = getelementptr %bl.store, ptr %s, i64 0, i32 3
  %clock = load i64, ptr %clockp
  %stamp = add i64 %clock, 1
  store i64 %stamp, ptr %clockp
  store i64 %sum, ptr %kp
  %mine = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %e
  store ptr %block, ptr %mine
  %mc = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %e, i32 1
  store i64 %class, ptr %mc
  %mt = getelementptr %bl.store, ptr %s, i64 0, i32 7, i64 %e, i32 2
  store i64 %stamp, ptr %mt
  call void @bl.store.unlock(ptr %s)
  ret i1 true
}

; Fresh memory of a class; from 2 MB on aligned to huge pages, which are asked for.
define internal ptr @bl.map(i64 %class) {
entry:
  %small = icmp ult i64 %class, 2097152
  br i1 %small, label %plain, label %huge
plain:
  %p = call ptr @mmap(ptr null, i64 %class, i32 3, i32 34, i32 -1, i64 0)
  %pbad = icmp eq ptr %p, inttoptr (i64 -1 to ptr)
  %pr = select i1 %pbad, ptr null, ptr %p
  ret ptr %pr
huge:
  %wide = add i64 %class, 2097152
  %m = call ptr @mmap(ptr null, i64 %wide, i32 3, i32 34, i32 -1, i64 0)
  %bad = icmp eq ptr %m, inttoptr (i64 -1 to ptr)
  br i1 %bad, label %none, label %align
none:
  ret ptr null
align:
  %at = ptrtoint ptr %m to i64
  %over = add i64 %at, 2097151
  %start = and i64 %over, -2097152
  %head = sub i64 %start, %at
  %base = getelementptr i8, ptr %m, i64 %head
  %nohead = icmp eq i64 %head, 0
  br i1 %nohead, label %tail, label %cut
cut:
  %r = call i32 @munmap(ptr %m, i64 %head)
  br label %tail
tail:
  %end = getelementptr i8, ptr %base, i64 %class
  %rest = sub i64 2097152, %head
  %r2 = call i32 @munmap(ptr %end, i64 %rest)
  %advice = call i32 @madvise(ptr %base, i64 %class, i32 14)
  ret ptr %base
}

define internal ptr @bl.block(i64 %class) {
entry:
  %s = call ptr @bl.wiped_page(ptr @bl.store.page)
  call void @bl.count(ptr %s, i64 24)
  %kept = call ptr @bl.store.take(ptr %s, i64 %class)
  %fresh = icmp eq ptr %kept, null
  br i1 %fresh, label %map, label %again
again:
  ret ptr %kept
map:
  %m = call ptr @bl.map(i64 %class)
  ret ptr %m
}

define internal void @bl.unblock(ptr %block, i64 %class) {
entry:
  %s = call ptr @bl.wiped_page(ptr @bl.store.page)
  %kept = call i1 @bl.store.keep(ptr %s, ptr %block, i64 %class)
  br i1 %kept, label %done, label %release
release:
  %r = call i32 @munmap(ptr %block, i64 %class)
  call void @bl.count(ptr %s, i64 40)
  br label %done
done:
  ret void
}

define void @bl_store_limit(i64 %bytes) {
  store atomic i64 %bytes, ptr @bl.store.limit monotonic, align 8
  ret void
}

; out: allocations, reused, kept bytes, released
define void @bl_store_statistics(ptr %out) {
entry:
  store [4 x i64] zeroinitializer, ptr %out
  %s = call ptr @bl.wiped_page(ptr @bl.store.page)
  %absent = icmp eq ptr %s, null
  br i1 %absent, label %done, label %copy
copy:
  %ap = getelementptr i8, ptr %s, i64 24
  %a = load atomic i64, ptr %ap monotonic, align 8
  store i64 %a, ptr %out
  %up = getelementptr i8, ptr %s, i64 32
  %u = load atomic i64, ptr %up monotonic, align 8
  %o1 = getelementptr i64, ptr %out, i64 1
  store i64 %u, ptr %o1
  %kp = getelementptr i8, ptr %s, i64 8
  %k = load atomic i64, ptr %kp monotonic, align 8
  %o2 = getelementptr i64, ptr %out, i64 2
  store i64 %k, ptr %o2
  %rp = getelementptr i8, ptr %s, i64 40
  %r = load atomic i64, ptr %rp monotonic, align 8
  %o3 = getelementptr i64, ptr %out, i64 3
  store i64 %r, ptr %o3
  br label %done
done:
  ret void
}
