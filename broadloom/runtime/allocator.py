"""Memory for results and workspaces, as native code: large blocks are kept and used again.

What goes in: sizes. What comes out: 64-byte aligned memory; NumPy's memory handler (NEP 49) on top of it, so that
an array made by a compiled function owns its data as any other array does. A fresh page costs about 0.6 us, more
than the arithmetic on it, hence the keeping.

What holds: blocks of 1 MB and more come in size classes (four per doubling) and go back to a store that is bounded
in bytes, the oldest leaving first; from 2 MB on they are aligned to huge pages. The store's state lies in one page
that is wiped in a child of `fork`, so no lock is inherited. Every function may be called from any thread, with or
without the GIL, and after the interpreter has gone; a store that is busy is passed by. No Python code is involved.
The text contains no address and links into a shared library as well.
"""

from __future__ import annotations

from dataclasses import dataclass

LARGE_BLOCK = 1 << 20
DEFAULT_LIMIT = 512 << 20  # bytes kept at most
SLOTS = 64

# The names that the text asks of the C library.
C_FUNCTIONS = ("mmap", "munmap", "madvise", "malloc", "free")


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """Counters of the store since the process began (or was forked): large blocks handed out, how many of these
    were kept ones, bytes kept now, and blocks given back to the system."""

    allocations: int
    reused: int
    kept_bytes: int
    released: int


# State page: lock, kept bytes, clock, allocations, reuses, releases, then slots {block, class, stamp}.
_STORE = """
%bl.slot = type { ptr, i64, i64 }
%bl.store = type { i32, i32, i64, i64, i64, i64, i64, [SLOTS x %bl.slot] }
@bl.store.page = internal global ptr null
@bl.store.limit = internal global i64 LIMIT

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
  %more = icmp ult i64 %next, SLOTS
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
  %more = icmp ult i64 %next, SLOTS
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
"""

# Workspaces: the size is known again at the release, so there is no header.
_WORKSPACE = """
define ptr @bl_alloc(ptr %ctx, i64 %size) {
entry:
  %small = icmp ult i64 %size, 1048576
  br i1 %small, label %heap, label %large
heap:
  %padded = add i64 %size, 72
  %raw = call ptr @malloc(i64 %padded)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %align
align:
  %at = ptrtoint ptr %raw to i64
  %over = add i64 %at, 71
  %start = and i64 %over, -64
  %shift = sub i64 %start, %at
  %data = getelementptr i8, ptr %raw, i64 %shift
  %memo = getelementptr i8, ptr %data, i64 -8
  store ptr %raw, ptr %memo
  ret ptr %data
large:
  %absurd = icmp ugt i64 %size, 4611686018427387904
  br i1 %absurd, label %fail, label %block
block:
  %class = call i64 @bl.class(i64 %size)
  %b = call ptr @bl.block(i64 %class)
  ret ptr %b
fail:
  ret ptr null
}

define void @bl_free(ptr %ctx, ptr %p, i64 %size) {
entry:
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %some
some:
  %small = icmp ult i64 %size, 1048576
  br i1 %small, label %heap, label %large
heap:
  %memo = getelementptr i8, ptr %p, i64 -8
  %raw = load ptr, ptr %memo
  call void @free(ptr %raw)
  br label %done
large:
  %class = call i64 @bl.class(i64 %size)
  call void @bl.unblock(ptr %p, i64 %class)
  br label %done
done:
  ret void
}
"""

# NEP 49. A header of 64 bytes {class or 0, size, start} stands before the data, because NumPy does not tell the
# old size at realloc and arrays can change theirs.
_RESULTS = """
define internal ptr @bl.result.malloc(ptr %self, i64 %size) {
entry:
  %absurd = icmp ugt i64 %size, 4611686018427387904
  br i1 %absurd, label %fail, label %sized
sized:
  %total = add i64 %size, 64
  %small = icmp ult i64 %total, 1048576
  br i1 %small, label %heap, label %large
heap:
  %padded = add i64 %total, 64
  %raw = call ptr @malloc(i64 %padded)
  %at = ptrtoint ptr %raw to i64
  %over = add i64 %at, 63
  %aligned = and i64 %over, -64
  %shift = sub i64 %aligned, %at
  br label %join
large:
  %class = call i64 @bl.class(i64 %total)
  %block = call ptr @bl.block(i64 %class)
  br label %join
join:
  %start = phi ptr [ %raw, %heap ], [ %block, %large ]
  %offset = phi i64 [ %shift, %heap ], [ 0, %large ]
  %kind = phi i64 [ 0, %heap ], [ %class, %large ]
  %none = icmp eq ptr %start, null
  br i1 %none, label %fail, label %fill
fill:
  %header = getelementptr i8, ptr %start, i64 %offset
  store i64 %kind, ptr %header
  %sp = getelementptr i64, ptr %header, i64 1
  store i64 %size, ptr %sp
  %rp = getelementptr i64, ptr %header, i64 2
  store ptr %start, ptr %rp
  %data = getelementptr i8, ptr %header, i64 64
  ret ptr %data
fail:
  ret ptr null
}

define internal void @bl.result.free(ptr %self, ptr %p, i64 %size) {
entry:
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %some
some:
  %header = getelementptr i8, ptr %p, i64 -64
  %class = load i64, ptr %header
  %rp = getelementptr i64, ptr %header, i64 2
  %start = load ptr, ptr %rp
  %heap = icmp eq i64 %class, 0
  br i1 %heap, label %small, label %large
small:
  call void @free(ptr %start)
  br label %done
large:
  call void @bl.unblock(ptr %start, i64 %class)
  br label %done
done:
  ret void
}

define internal ptr @bl.result.calloc(ptr %self, i64 %n, i64 %each) {
entry:
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %n, i64 %each)
  %size = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  br i1 %over, label %fail, label %make
make:
  %p = call ptr @bl.result.malloc(ptr %self, i64 %size)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %size, i1 false)
  ret ptr %p
fail:
  ret ptr null
}

define internal ptr @bl.result.realloc(ptr %self, ptr %p, i64 %size) {
entry:
  %new = call ptr @bl.result.malloc(ptr %self, i64 %size)
  %none = icmp eq ptr %new, null
  %first = icmp eq ptr %p, null
  %stop = or i1 %none, %first
  br i1 %stop, label %done, label %copy
copy:
  %sp = getelementptr i8, ptr %p, i64 -56
  %old = load i64, ptr %sp
  %n = call i64 @llvm.umin.i64(i64 %old, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %p, i64 %n, i1 false)
  call void @bl.result.free(ptr %self, ptr %p, i64 %old)
  br label %done
done:
  ret ptr %new
}

; PyDataMem_Handler, version 1
@bl.handler = internal constant { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr } {
  [127 x i8] NAME, i8 1, ptr null,
  ptr @bl.result.malloc, ptr @bl.result.calloc, ptr @bl.result.realloc, ptr @bl.result.free }

define ptr @bl_result_handler() {
  ret ptr @bl.handler
}
"""


def allocator_text() -> str:
    """The LLVM IR of the allocator. It defines `bl_alloc(ctx, size)`, `bl_free(ctx, p, size)`, `bl_result_handler()`,
    `bl_store_limit(bytes)` and `bl_store_statistics(out)`."""
    name = "broadloom"
    array = 'c"' + name + "\\00" * (127 - len(name)) + '"'
    text = _STORE + _WORKSPACE + _RESULTS
    return text.replace("SLOTS", str(SLOTS)).replace("LIMIT", str(DEFAULT_LIMIT)).replace("NAME", array)
