; Small readers of tables and objects.

%bl.array = type { ptr, i32, i32, ptr, ptr }

define internal i64 @w(ptr %t, i64 %i) alwaysinline {
  %p = getelementptr i64, ptr %t, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}

define internal ptr @wp(ptr %t, i64 %i) alwaysinline {
  %p = getelementptr ptr, ptr %t, i64 %i
  %v = load ptr, ptr %p
  ret ptr %v
}

define internal ptr @at(ptr %p, i64 %bytes) alwaysinline {
  %q = getelementptr i8, ptr %p, i64 %bytes
  ret ptr %q
}

define internal ptr @field(ptr %o, i64 %bytes) alwaysinline {
  %p = getelementptr i8, ptr %o, i64 %bytes
  %v = load ptr, ptr %p
  ret ptr %v
}

define internal ptr @typeof(ptr %o) alwaysinline {
  %t = call ptr @field(ptr %o, i64 8)
  ret ptr %t
}

define internal i1 @isa(ptr %o, ptr %type) {
entry:
  %t = call ptr @typeof(ptr %o)
  %same = icmp eq ptr %t, %type
  br i1 %same, label %yes, label %ask
ask:
  %r = call i32 @PyType_IsSubtype(ptr %t, ptr %type)
  %sub = icmp ne i32 %r, 0
  ret i1 %sub
yes:
  ret i1 true
}

define internal void @drop(ptr %o) {
entry:
  %none = icmp eq ptr %o, null
  br i1 %none, label %done, label %some
some:
  call void @Py_DecRef(ptr %o)
  br label %done
done:
  ret void
}

; A borrowed item of a dict, or null; never leaves an error set.
define internal ptr @lookup(ptr %dict, ptr %key) {
entry:
  %v = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %key)
  %none = icmp eq ptr %v, null
  br i1 %none, label %clear, label %done
clear:
  call void @PyErr_Clear()
  br label %done
done:
  ret ptr %v
}

define internal i32 @ndim(ptr %x) alwaysinline {
  %p = call ptr @at(ptr %x, i64 24)
  %n = load i32, ptr %p
  ret i32 %n
}

; The value of an exact int that fits; false otherwise.
define internal i1 @integer(ptr %o, ptr %out) {
entry:
  %over = alloca i32
  %t = call ptr @typeof(ptr %o)
  %is = icmp eq ptr %t, @PyLong_Type
  br i1 %is, label %read, label %no
read:
  store i32 0, ptr %over
  %v = call i64 @PyLong_AsLongLongAndOverflow(ptr %o, ptr %over)
  store i64 %v, ptr %out
  %flag = load i32, ptr %over
  %fits = icmp eq i32 %flag, 0
  ret i1 %fits
no:
  ret i1 false
}

; The size of axis k of an array; false when there is none.
define internal i1 @size_of(ptr %x, i64 %k, ptr %out) {
entry:
  %is = call i1 @isa(ptr %x, ptr @PyArray_Type)
  br i1 %is, label %rank, label %no
rank:
  %n = call i32 @ndim(ptr %x)
  %n64 = zext i32 %n to i64
  %in = icmp ult i64 %k, %n64
  br i1 %in, label %read, label %no
read:
  %dims = call ptr @field(ptr %x, i64 32)
  %v = call i64 @w(ptr %dims, i64 %k)
  store i64 %v, ptr %out
  ret i1 true
no:
  ret i1 false
}

define internal i64 @elements(ptr %dims, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %more ]
  %total = phi i64 [ 1, %entry ], [ %total1, %more ]
  %end = icmp uge i64 %k, %n
  br i1 %end, label %done, label %more
more:
  %d = call i64 @w(ptr %dims, i64 %k)
  %total1 = mul i64 %total, %d
  %k1 = add i64 %k, 1
  br label %loop
done:
  ret i64 %total
}
