; NumPy's memory handler (NEP 49). A header of 64 bytes {class or 0, size, start} stands before the data, because
; NumPy does not tell the old size at realloc and arrays can change theirs. In large blocks data begin with the second
; page: large arrays of malloc begin 16 bytes into one, so a loop's loads stay ahead of its stores modulo 4096. Where
; they are a little behind, a processor takes them for loads of what was just stored, and waits.

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
  %paged = add i64 %size, 4096
  %class = call i64 @bl.class(i64 %paged)
  %block = call ptr @bl.block(i64 %class)
  br label %join
join:
  %start = phi ptr [ %raw, %heap ], [ %block, %large ]
  %offset = phi i64 [ %shift, %heap ], [ 4032, %large ]
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
  [127 x i8] $NAME, i8 1, ptr null,
  ptr @bl.result.malloc, ptr @bl.result.calloc, ptr @bl.result.realloc, ptr @bl.result.free }

define ptr @bl_result_handler() {
  ret ptr @bl.handler
}
