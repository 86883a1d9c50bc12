; The thread pool; see pool.py for what holds.

@bl.pool.page = internal global ptr null

declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal void @bl.futex.wait(ptr %word, i32 %value) {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 128, i32 %value, ptr null, ptr null, i32 0)
  ret void
}

define internal void @bl.futex.wake(ptr %word, i32 %count) {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

; Claims and runs one chunk of the current job; false when none is unclaimed.
define internal i1 @bl.pool.step(ptr %s) {
entry:
  %statep = getelementptr i8, ptr %s, i64 $STATE
  br label %look
look:
  %state = load atomic i64, ptr %statep seq_cst, align 8
  %unclaimed = and i64 %state, 4294967295
  %none = icmp eq i64 %unclaimed, 0
  br i1 %none, label %idle, label %read
idle:
  ret i1 false
read:
  %kp = getelementptr i8, ptr %s, i64 $KERNEL
  %kernel = load atomic ptr, ptr %kp monotonic, align 8
  %cp = getelementptr i8, ptr %s, i64 $CTX
  %ctx = load atomic ptr, ptr %cp monotonic, align 8
  %ap = getelementptr i8, ptr %s, i64 $ARGS
  %args = load atomic ptr, ptr %ap monotonic, align 8
  %np = getelementptr i8, ptr %s, i64 $POINTS
  %n = load atomic i64, ptr %np monotonic, align 8
  %sp = getelementptr i8, ptr %s, i64 $CHUNK
  %size = load atomic i64, ptr %sp monotonic, align 8
  %tp = getelementptr i8, ptr %s, i64 $CHUNKS
  %chunks = load atomic i64, ptr %tp monotonic, align 8
  %less = sub i64 %state, 1
  %pair = cmpxchg ptr %statep, i64 %state, i64 %less seq_cst seq_cst
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %run, label %look
run:
  %number = sub i64 %chunks, %unclaimed
  %begin = mul i64 %number, %size
  %past = add i64 %begin, %size
  %end = call i64 @llvm.smin.i64(i64 %past, i64 %n)
  %code = call i32 %kernel(ptr %ctx, ptr %args, i64 %begin, i64 %end)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %count, label %fail
fail:
  %fp = getelementptr i8, ptr %s, i64 $FAILED
  store atomic i32 %code, ptr %fp monotonic, align 4
  br label %count
count:
  %up = getelementptr i8, ptr %s, i64 $UNFINISHED
  %before = atomicrmw sub ptr %up, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %finish, label %done
finish:
  %wp = getelementptr i8, ptr %s, i64 $WAITING
  %waiting = load atomic i32, ptr %wp seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %wake, label %done
wake:
  call void @bl.futex.wake(ptr %up, i32 1)
  br label %done
done:
  ret i1 true
}

; Takes the CPU of the caller out of the mask of this thread. The CPU, or -1 where nothing was changed (the system refuses
; an empty mask); the mask as it is then.
define internal i32 @bl.pool.aside(ptr %s, ptr %mask) {
entry:
  store i1024 0, ptr %mask, align 8
  %bytes = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %cp = getelementptr i8, ptr %s, i64 $CPU
  %cpu = load atomic i32, ptr %cp monotonic, align 4
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %look, label %none
look:
  %wide = zext i32 %cpu to i1024
  %bit = shl i1024 1, %wide
  %all = load i1024, ptr %mask, align 8
  %own = and i1024 %all, %bit
  %has = icmp ne i1024 %own, 0
  br i1 %has, label %clear, label %none
clear:
  %less = xor i1024 %all, %bit
  store i1024 %less, ptr %mask, align 8
  %r = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  %fine = icmp eq i32 %r, 0
  br i1 %fine, label %done, label %refused
refused:
  store i1024 %all, ptr %mask, align 8
  br label %none
done:
  ret i32 %cpu
none:
  ret i32 -1
}

; Gives the CPU back, unless somebody else has set the mask meanwhile.
define internal void @bl.pool.back(i32 %cpu, ptr %mask) {
entry:
  %now = alloca i1024, align 8
  store i1024 0, ptr %now, align 8
  %changed = icmp sge i32 %cpu, 0
  br i1 %changed, label %get, label %done
get:
  %bytes = call i32 @sched_getaffinity(i32 0, i64 128, ptr %now)
  %old = load i1024, ptr %mask, align 8
  %new = load i1024, ptr %now, align 8
  %same = icmp eq i1024 %old, %new
  br i1 %same, label %set, label %done
set:
  %wide = zext i32 %cpu to i1024
  %bit = shl i1024 1, %wide
  %all = or i1024 %old, %bit
  store i1024 %all, ptr %now, align 8
  %r = call i32 @sched_setaffinity(i32 0, i64 128, ptr %now)
  br label %done
done:
  ret void
}

; May the caller run on this CPU? False too where the caller has ended, or nothing is owed (-1).
define internal i1 @bl.pool.open(ptr %s, i32 %cpu) {
entry:
  %theirs = alloca i1024, align 8
  store i1024 0, ptr %theirs, align 8
  %owed = icmp sge i32 %cpu, 0
  br i1 %owed, label %get, label %no
get:
  %tp = getelementptr i8, ptr %s, i64 $CALLER
  %caller = load atomic i32, ptr %tp monotonic, align 4
  %bytes = call i32 @sched_getaffinity(i32 %caller, i64 128, ptr %theirs)
  %all = load i1024, ptr %theirs, align 8
  %wide = zext i32 %cpu to i1024
  %down = lshr i1024 %all, %wide
  %bit = trunc i1024 %down to i1
  ret i1 %bit
no:
  ret i1 false
}

; This thread leaves the CPU of the caller: without it, and having it back at once, is enough.
define internal void @bl.pool.move(ptr %s) {
entry:
  %mask = alloca i1024, align 8
  %cpu = call i32 @bl.pool.aside(ptr %s, ptr %mask)
  call void @bl.pool.back(i32 %cpu, ptr %mask)
  ret void
}

; Tells callers of the CPU of this thread, which is about to sleep, where it may run on no other.
define internal void @bl.pool.tell(ptr %s, ptr %mask) {
entry:
  %all = load i1024, ptr %mask, align 8
  %less = sub i1024 %all, 1
  %others = and i1024 %all, %less
  %single = icmp eq i1024 %others, 0
  %number = call i32 @sched_getcpu()
  %next = add i32 %number, 1
  %only = select i1 %single, i32 %next, i32 0
  %op = getelementptr i8, ptr %s, i64 $ONLY
  store atomic i32 %only, ptr %op monotonic, align 4
  ret void
}

define internal ptr @bl.pool.worker(ptr %s) {
entry:
  %mask = alloca i1024, align 8
  %statep = getelementptr i8, ptr %s, i64 $STATE
  %seqp = getelementptr i8, ptr %s, i64 $SEQUENCE
  %sleepp = getelementptr i8, ptr %s, i64 $SLEEPERS
  %cp = getelementptr i8, ptr %s, i64 $CPU
  br label %work
work:
  %owed = phi i32 [ -1, %entry ], [ %owed, %work ], [ %owed, %spin ], [ %owed, %up ], [ %still, %woken ], [ %still, %away ]
  %did = call i1 @bl.pool.step(ptr %s)
  br i1 %did, label %work, label %spin
spin:
  %i = phi i32 [ 0, %work ], [ %next, %pause ]
  %state = load atomic i64, ptr %statep monotonic, align 8
  %unclaimed = and i64 %state, 4294967295
  %some = icmp ne i64 %unclaimed, 0
  br i1 %some, label %work, label %pause
pause:
  call void @$PAUSE
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, $SPINS
  br i1 %more, label %spin, label %tired
tired:
  %sequence = load atomic i32, ptr %seqp seq_cst, align 4
  %a = atomicrmw add ptr %sleepp, i32 1 seq_cst
  %again = load atomic i64, ptr %statep seq_cst, align 8
  %left = and i64 %again, 4294967295
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %rest, label %up
rest:
  %free = icmp slt i32 %owed, 0
  br i1 %free, label %clear, label %sleep
clear:
  %taken = call i32 @bl.pool.aside(ptr %s, ptr %mask)
  call void @bl.pool.tell(ptr %s, ptr %mask)
  br label %sleep
sleep:
  %aside = phi i32 [ %owed, %rest ], [ %taken, %clear ]
  call void @bl.futex.wait(ptr %seqp, i32 %sequence)
  %b = atomicrmw sub ptr %sleepp, i32 1 seq_cst
  %open = call i1 @bl.pool.open(ptr %s, i32 %aside)
  br i1 %open, label %give, label %woken
give:
  call void @bl.pool.back(i32 %aside, ptr %mask)
  br label %woken
woken:
  %still = phi i32 [ %aside, %sleep ], [ -1, %give ]
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr %cp monotonic, align 4
  %behind = icmp eq i32 %here, %there
  br i1 %behind, label %away, label %work
away:
  call void @bl.pool.move(ptr %s)
  br label %work
up:
  %c = atomicrmw sub ptr %sleepp, i32 1 seq_cst
  br label %work
}

; Brings the number of workers to `wanted`, as far as the system gives threads.
define internal void @bl.pool.grow(ptr %s, i32 %wanted) {
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %thread = alloca i64
  %wp = getelementptr i8, ptr %s, i64 $WORKERS
  %have = load i32, ptr %wp
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %done, label %block
block:
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %m = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %make
make:
  %k = phi i32 [ %have, %block ], [ %k1, %made ]
  %more = icmp slt i32 %k, %wanted
  br i1 %more, label %create, label %restore
create:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @bl.pool.worker, ptr %s)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %restore, label %made
made:
  %t = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %t)
  %k1 = add i32 %k, 1
  store i32 %k1, ptr %wp
  br label %make
restore:
  %r = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %done
done:
  ret void
}

; The caller has no chunk left to claim: spins, then sleeps, until the others have finished theirs.
define internal void @bl.pool.join(ptr %s) {
entry:
  %up = getelementptr i8, ptr %s, i64 $UNFINISHED
  %wp = getelementptr i8, ptr %s, i64 $WAITING
  br label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %next, %pause ]
  %u = load atomic i32, ptr %up acquire, align 4
  %ready = icmp eq i32 %u, 0
  br i1 %ready, label %done, label %pause
pause:
  call void @$PAUSE
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, $SPINS
  br i1 %more, label %spin, label %announce
announce:
  store atomic i32 1, ptr %wp seq_cst, align 4
  br label %check
check:
  %v = load atomic i32, ptr %up seq_cst, align 4
  %over = icmp eq i32 %v, 0
  br i1 %over, label %withdraw, label %sleep
sleep:
  call void @bl.futex.wait(ptr %up, i32 %v)
  br label %check
withdraw:
  store atomic i32 0, ptr %wp seq_cst, align 4
  br label %done
done:
  ret void
}

define internal void @bl.pool.publish(ptr %s, ptr %ctx, ptr %kernel, ptr %args, i64 %n, i64 %size, i64 %chunks) {
entry:
  %kp = getelementptr i8, ptr %s, i64 $KERNEL
  store atomic ptr %kernel, ptr %kp monotonic, align 8
  %cp = getelementptr i8, ptr %s, i64 $CTX
  store atomic ptr %ctx, ptr %cp monotonic, align 8
  %ap = getelementptr i8, ptr %s, i64 $ARGS
  store atomic ptr %args, ptr %ap monotonic, align 8
  %np = getelementptr i8, ptr %s, i64 $POINTS
  store atomic i64 %n, ptr %np monotonic, align 8
  %sp = getelementptr i8, ptr %s, i64 $CHUNK
  store atomic i64 %size, ptr %sp monotonic, align 8
  %tp = getelementptr i8, ptr %s, i64 $CHUNKS
  store atomic i64 %chunks, ptr %tp monotonic, align 8
  %fp = getelementptr i8, ptr %s, i64 $FAILED
  store atomic i32 0, ptr %fp monotonic, align 4
  %here = call i32 @sched_getcpu()
  %hp = getelementptr i8, ptr %s, i64 $CPU
  store atomic i32 %here, ptr %hp monotonic, align 4
  %up = getelementptr i8, ptr %s, i64 $UNFINISHED
  %count = trunc i64 %chunks to i32
  store atomic i32 %count, ptr %up seq_cst, align 4
  %statep = getelementptr i8, ptr %s, i64 $STATE
  %old = load atomic i64, ptr %statep monotonic, align 8
  %epoch = and i64 %old, -4294967296
  %newer = add i64 %epoch, 4294967296
  %state = or i64 %newer, %chunks
  store atomic i64 %state, ptr %statep seq_cst, align 8
  %sleepp = getelementptr i8, ptr %s, i64 $SLEEPERS
  %asleep = load atomic i32, ptr %sleepp seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %wake, label %done
wake:
  %tid = call i64 (i64, ...) @syscall(i64 $GETTID)
  %thread = trunc i64 %tid to i32
  %rp = getelementptr i8, ptr %s, i64 $CALLER
  store atomic i32 %thread, ptr %rp monotonic, align 4
  %op = getelementptr i8, ptr %s, i64 $ONLY
  %only = load atomic i32, ptr %op monotonic, align 4
  %one = add i32 %here, 1
  %behind = icmp eq i32 %only, %one
  br i1 %behind, label %move, label %call
move:
  call void @bl.pool.move(ptr %s)
  %moved = call i32 @sched_getcpu()
  store atomic i32 %moved, ptr %hp monotonic, align 4
  br label %call
call:
  %seqp = getelementptr i8, ptr %s, i64 $SEQUENCE
  %a = atomicrmw add ptr %seqp, i32 1 seq_cst
  %most = sub i32 %count, 1
  call void @bl.futex.wake(ptr %seqp, i32 %most)
  br label %done
done:
  ret void
}

; The points of a chunk. About four chunks a thread even out threads of different speed; whole multiples of the grain.
define i64 @bl_pool_chunk(i64 %n, i64 %grain, i64 %threads) {
entry:
  %g = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %parts = mul i64 %threads, 4
  %share0 = udiv i64 %n, %parts
  %share = add i64 %share0, 1
  %up0 = add i64 %share, %g
  %up1 = sub i64 %up0, 1
  %grains = udiv i64 %up1, %g
  %size = mul i64 %grains, %g
  ret i64 %size
}

define i32 @bl_parallel_for(ptr %ctx, ptr %kernel, ptr %args, i64 %n, i64 %grain) {
entry:
  %threadsp = getelementptr i8, ptr %ctx, i64 24
  %asked = load i64, ptr %threadsp
  %threads = call i64 @llvm.smin.i64(i64 %asked, i64 $MAX)
  %g = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %several = icmp sgt i64 %threads, 1
  %enough = icmp sgt i64 %n, %g
  %try = and i1 %several, %enough
  br i1 %try, label %split, label %serial
serial:
  %code = call i32 %kernel(ptr %ctx, ptr %args, i64 0, i64 %n)
  ret i32 %code
split:
  %size = call i64 @bl_pool_chunk(i64 %n, i64 %g, i64 %threads)
  %over = add i64 %n, %size
  %over1 = sub i64 %over, 1
  %chunks = udiv i64 %over1, %size
  %s = call ptr @bl.wiped_page(ptr @bl.pool.page)
  %absent = icmp eq ptr %s, null
  br i1 %absent, label %serial, label %enter
enter:
  %busyp = getelementptr i8, ptr %s, i64 $BUSY
  %pair = cmpxchg ptr %busyp, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %go, label %serial
go:
  %helpers0 = call i64 @llvm.smin.i64(i64 %threads, i64 %chunks)
  %helpers1 = sub i64 %helpers0, 1
  %helpers = trunc i64 %helpers1 to i32
  call void @bl.pool.grow(ptr %s, i32 %helpers)
  call void @bl.pool.publish(ptr %s, ptr %ctx, ptr %kernel, ptr %args, i64 %n, i64 %size, i64 %chunks)
  br label %work
work:
  %did = call i1 @bl.pool.step(ptr %s)
  br i1 %did, label %work, label %wait
wait:
  call void @bl.pool.join(ptr %s)
  %fp = getelementptr i8, ptr %s, i64 $FAILED
  %failed = load atomic i32, ptr %fp monotonic, align 4
  store atomic i32 0, ptr %busyp release, align 4
  ret i32 %failed
}

define i32 @bl_pool_workers() {
entry:
  %s = call ptr @bl.wiped_page(ptr @bl.pool.page)
  %absent = icmp eq ptr %s, null
  br i1 %absent, label %none, label %some
none:
  ret i32 0
some:
  %wp = getelementptr i8, ptr %s, i64 $WORKERS
  %n = load atomic i32, ptr %wp monotonic, align 4
  ret i32 %n
}
