; Workspaces: the size is known again at the release, so there is no header.

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
