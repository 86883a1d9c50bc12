; Memory for tests, with bytes around it that nobody may write. Each block is a row of @slots: where its data is, its
; size, where what is watched begins and ends, and what is given back to the system ("pages" 0: by free).
; @mode: 0 the block lies between zones of $ZONE bytes, 1 it ends where a page that faults begins, 2 it begins where
; one ends.

%row = type { ptr, i64, ptr, ptr, ptr, i64 }

@slots = internal global [$SLOTS x %row] zeroinitializer
@top = internal global i64 0
@lock = internal global i32 0
@mode = internal global i32 0
@workspaces = internal global i64 0
; how many blocks were damaged, and the first one: data, size, the first damaged byte counted from the data
@damage = internal global [4 x i64] zeroinitializer

declare ptr @malloc(i64)
declare void @free(ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

define internal void @acquire() {
entry:
  br label %try
try:
  %pair = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %done, label %try
done:
  ret void
}

define internal void @release() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

; The row that holds this address as its data, or null; an address of null finds a free row. Under the lock.
define internal ptr @find(ptr %data) {
entry:
  %top = load i64, ptr @top
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %end = icmp uge i64 %i, %top
  br i1 %end, label %new, label %look
look:
  %row = getelementptr [$SLOTS x %row], ptr @slots, i64 0, i64 %i
  %p = load ptr, ptr %row
  %same = icmp eq ptr %p, %data
  br i1 %same, label %found, label %next
next:
  %i1 = add i64 %i, 1
  br label %loop
found:
  ret ptr %row
new:
  %wanted = icmp eq ptr %data, null
  %room = icmp ult i64 %top, $SLOTS
  %both = and i1 %wanted, %room
  br i1 %both, label %grow, label %none
grow:
  %top1 = add i64 %top, 1
  store i64 %top1, ptr @top
  %last = getelementptr [$SLOTS x %row], ptr @slots, i64 0, i64 %top
  ret ptr %last
none:
  ret ptr null
}

define internal ptr @keep(ptr %data, i64 %size, ptr %low, ptr %high, ptr %raw, i64 %pages) {
entry:
  call void @acquire()
  %row = call ptr @find(ptr null)
  %full = icmp eq ptr %row, null
  br i1 %full, label %done, label %fill
fill:
  %f1 = getelementptr %row, ptr %row, i64 0, i32 1
  %f2 = getelementptr %row, ptr %row, i64 0, i32 2
  %f3 = getelementptr %row, ptr %row, i64 0, i32 3
  %f4 = getelementptr %row, ptr %row, i64 0, i32 4
  %f5 = getelementptr %row, ptr %row, i64 0, i32 5
  store ptr %data, ptr %row
  store i64 %size, ptr %f1
  store ptr %low, ptr %f2
  store ptr %high, ptr %f3
  store ptr %raw, ptr %f4
  store i64 %pages, ptr %f5
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %data, %fill ]
  call void @release()
  ret ptr %result
}

; Zones: `shift` is what the data lies behind a multiple of 64.
define internal ptr @between_zones(i64 %size, i64 %shift) {
entry:
  %room = add i64 %size, $AROUND
  %raw = call ptr @malloc(i64 %room)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %fill
fill:
  %at = ptrtoint ptr %raw to i64
  %behind = add i64 %at, $BEFORE
  %line = and i64 %behind, -64
  %place = add i64 %line, %shift
  %offset = sub i64 %place, %at
  %data = getelementptr i8, ptr %raw, i64 %offset
  %low = getelementptr i8, ptr %data, i64 -$ZONE
  %end = getelementptr i8, ptr %data, i64 %size
  %high = getelementptr i8, ptr %end, i64 $ZONE
  %whole = add i64 %size, $TWICE
  call void @llvm.memset.p0.i64(ptr %low, i8 $MARK, i64 %whole, i1 false)
  %kept = call ptr @keep(ptr %data, i64 %size, ptr %low, ptr %high, ptr %raw, i64 0)
  ret ptr %kept
fail:
  ret ptr null
}

define internal ptr @between_pages(i64 %size, i64 %align, i32 %mode) {
entry:
  %some = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %over = add i64 %some, $LAST
  %body = and i64 %over, -$PAGE
  %bytes = add i64 %body, $PAGES
  %raw = call ptr @mmap(ptr null, i64 %bytes, i32 3, i32 34, i32 -1, i64 0)
  %failed = icmp eq ptr %raw, inttoptr (i64 -1 to ptr)
  br i1 %failed, label %fail, label %protect
protect:
  %low = getelementptr i8, ptr %raw, i64 $PAGE
  %high = getelementptr i8, ptr %low, i64 %body
  call void @llvm.memset.p0.i64(ptr %low, i8 $MARK, i64 %body, i1 false)
  %c1 = call i32 @mprotect(ptr %raw, i64 $PAGE, i32 0)
  %c2 = call i32 @mprotect(ptr %high, i64 $PAGE, i32 0)
  %c = or i32 %c1, %c2
  %bad = icmp ne i32 %c, 0
  br i1 %bad, label %fail, label %place
place:
  %left = sub i64 %body, %size
  %minus = sub i64 0, %align
  %last = and i64 %left, %minus
  %first = icmp eq i32 %mode, 2
  %offset = select i1 %first, i64 0, i64 %last
  %data = getelementptr i8, ptr %low, i64 %offset
  %kept = call ptr @keep(ptr %data, i64 %size, ptr %low, ptr %high, ptr %raw, i64 %bytes)
  ret ptr %kept
fail:
  ret ptr null
}

define internal ptr @take(i64 %size, i64 %align, i64 %shift) {
entry:
  %absurd = icmp ugt i64 %size, 4611686018427387904
  br i1 %absurd, label %fail, label %choose
choose:
  %mode = load i32, ptr @mode
  %zones = icmp eq i32 %mode, 0
  br i1 %zones, label %zoned, label %paged
zoned:
  %p = call ptr @between_zones(i64 %size, i64 %shift)
  ret ptr %p
paged:
  %q = call ptr @between_pages(i64 %size, i64 %align, i32 %mode)
  ret ptr %q
fail:
  ret ptr null
}

; Notes the first byte in [from, to) that is not a mark.
define internal i1 @whole(ptr %row, ptr %from, ptr %to) {
entry:
  %a = ptrtoint ptr %from to i64
  %b = ptrtoint ptr %to to i64
  %n = sub i64 %b, %a
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %yes, label %compare
compare:
  ; all bytes are alike where each is the one before
  %first = load i8, ptr %from
  %marked = icmp eq i8 %first, $MARK
  %second = getelementptr i8, ptr %from, i64 1
  %rest = sub i64 %n, 1
  %c = call i32 @memcmp(ptr %from, ptr %second, i64 %rest)
  %alike = icmp eq i32 %c, 0
  %good = and i1 %marked, %alike
  br i1 %good, label %yes, label %search
search:
  %i = phi i64 [ 0, %compare ], [ %i1, %search ]
  %p = getelementptr i8, ptr %from, i64 %i
  %byte = load i8, ptr %p
  %other = icmp ne i8 %byte, $MARK
  %i1 = add i64 %i, 1
  br i1 %other, label %note, label %search
note:
  %data = load ptr, ptr %row
  %f1 = getelementptr %row, ptr %row, i64 0, i32 1
  %size = load i64, ptr %f1
  %at = ptrtoint ptr %data to i64
  %where = add i64 %a, %i
  %offset = sub i64 %where, %at
  call void @damaged(i64 %at, i64 %size, i64 %offset)
  ret i1 false
yes:
  ret i1 true
}

define internal void @damaged(i64 %data, i64 %size, i64 %offset) {
entry:
  %count = load i64, ptr @damage
  %count1 = add i64 %count, 1
  store i64 %count1, ptr @damage
  %first = icmp eq i64 %count, 0
  br i1 %first, label %record, label %done
record:
  %p1 = getelementptr [4 x i64], ptr @damage, i64 0, i64 1
  %p2 = getelementptr [4 x i64], ptr @damage, i64 0, i64 2
  %p3 = getelementptr [4 x i64], ptr @damage, i64 0, i64 3
  store i64 %data, ptr %p1
  store i64 %size, ptr %p2
  store i64 %offset, ptr %p3
  br label %done
done:
  ret void
}

; Looks at both zones of a row, and mends them, so that one damage is told once.
define internal void @look(ptr %row) {
entry:
  %data = load ptr, ptr %row
  %f1 = getelementptr %row, ptr %row, i64 0, i32 1
  %f2 = getelementptr %row, ptr %row, i64 0, i32 2
  %f3 = getelementptr %row, ptr %row, i64 0, i32 3
  %size = load i64, ptr %f1
  %low = load ptr, ptr %f2
  %high = load ptr, ptr %f3
  %end = getelementptr i8, ptr %data, i64 %size
  %after = call i1 @whole(ptr %row, ptr %end, ptr %high)
  br i1 %after, label %front, label %mendafter
mendafter:
  %e = ptrtoint ptr %end to i64
  %h = ptrtoint ptr %high to i64
  %n = sub i64 %h, %e
  call void @llvm.memset.p0.i64(ptr %end, i8 $MARK, i64 %n, i1 false)
  br label %front
front:
  %before = call i1 @whole(ptr %row, ptr %low, ptr %data)
  br i1 %before, label %done, label %mendbefore
mendbefore:
  %l = ptrtoint ptr %low to i64
  %d = ptrtoint ptr %data to i64
  %m = sub i64 %d, %l
  call void @llvm.memset.p0.i64(ptr %low, i8 $MARK, i64 %m, i1 false)
  br label %done
done:
  ret void
}

define internal void @give(ptr %data) {
entry:
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %some
some:
  call void @acquire()
  %row = call ptr @find(ptr %data)
  %unknown = icmp eq ptr %row, null
  br i1 %unknown, label %wrong, label %known
wrong:
  %at = ptrtoint ptr %data to i64
  call void @damaged(i64 %at, i64 -1, i64 0)
  call void @release()
  br label %done
known:
  call void @look(ptr %row)
  %f1 = getelementptr %row, ptr %row, i64 0, i32 1
  %f4 = getelementptr %row, ptr %row, i64 0, i32 4
  %f5 = getelementptr %row, ptr %row, i64 0, i32 5
  %size = load i64, ptr %f1
  %raw = load ptr, ptr %f4
  %pages = load i64, ptr %f5
  store ptr null, ptr %row
  call void @release()
  %heap = icmp eq i64 %pages, 0
  br i1 %heap, label %freed, label %unmapped
freed:
  call void @llvm.memset.p0.i64(ptr %data, i8 $GONE, i64 %size, i1 false)
  call void @free(ptr %raw)
  br label %done
unmapped:
  %c = call i32 @munmap(ptr %raw, i64 %pages)
  br label %done
done:
  ret void
}

; ---- what tests call

define void @zones_mode(i32 %mode) {
  store i32 %mode, ptr @mode
  ret void
}

; How many workspaces have been asked for.
define i64 @zones_workspaces() {
  %n = load atomic i64, ptr @workspaces monotonic, align 8
  ret i64 %n
}

; Looks at all blocks; copies the record of the damage found since the last time and clears it.
define void @zones_check(ptr %out) {
entry:
  call void @acquire()
  %top = load i64, ptr @top
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %end = icmp uge i64 %i, %top
  br i1 %end, label %done, label %one
one:
  %row = getelementptr [$SLOTS x %row], ptr @slots, i64 0, i64 %i
  %p = load ptr, ptr %row
  %unused = icmp eq ptr %p, null
  br i1 %unused, label %next, label %used
used:
  call void @look(ptr %row)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %loop
done:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr @damage, i64 32, i1 false)
  call void @llvm.memset.p0.i64(ptr @damage, i8 0, i64 32, i1 false)
  call void @release()
  ret void
}

; ---- workspaces, as generated code asks for them

define ptr @zones_alloc(ptr %ctx, i64 %size) {
  %old = atomicrmw add ptr @workspaces, i64 1 monotonic
  %p = call ptr @take(i64 %size, i64 64, i64 0)
  ret ptr %p
}

define void @zones_free(ptr %ctx, ptr %p, i64 %size) {
  call void @give(ptr %p)
  ret void
}

; ---- NumPy's memory handler (NEP 49), version 1

define internal ptr @array_malloc(ptr %self, i64 %size) {
  %p = call ptr @take(i64 %size, i64 1, i64 16)
  ret ptr %p
}

define internal ptr @array_calloc(ptr %self, i64 %n, i64 %each) {
entry:
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %n, i64 %each)
  %size = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  br i1 %over, label %fail, label %make
make:
  %p = call ptr @array_malloc(ptr null, i64 %size)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %size, i1 false)
  ret ptr %p
fail:
  ret ptr null
}

define internal ptr @array_realloc(ptr %self, ptr %p, i64 %size) {
entry:
  %new = call ptr @array_malloc(ptr null, i64 %size)
  %none = icmp eq ptr %new, null
  %first = icmp eq ptr %p, null
  %stop = or i1 %none, %first
  br i1 %stop, label %done, label %look
look:
  call void @acquire()
  %row = call ptr @find(ptr %p)
  call void @release()
  %unknown = icmp eq ptr %row, null
  br i1 %unknown, label %done, label %copy
copy:
  %f1 = getelementptr %row, ptr %row, i64 0, i32 1
  %old = load i64, ptr %f1
  %n = call i64 @llvm.umin.i64(i64 %old, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %p, i64 %n, i1 false)
  call void @give(ptr %p)
  br label %done
done:
  ret ptr %new
}

define internal void @array_free(ptr %self, ptr %p, i64 %size) {
  call void @give(ptr %p)
  ret void
}

@handler = internal constant { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr } {
  [127 x i8] $NAME, i8 1, ptr null, ptr @array_malloc, ptr @array_calloc, ptr @array_realloc, ptr @array_free }

define ptr @zones_handler() {
  ret ptr @handler
}
