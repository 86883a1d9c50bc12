"""The native interface of module A: struct offsets, and how failures are recorded and reported.

What goes in: builders of functions that have a `ctx`. What comes out: loads of its fields, and calls of the one
function that records a failure.

    bl_array = { ptr data, i32 ndim, i32 dtype, ptr shape (i64*), ptr strides (i64*, bytes) }
    ctx      = { ptr alloc(ctx, i64) -> ptr, ptr free(ctx, ptr, i64), ptr parallel_for(ctx, kernel, args, i64 n, i64
                 grain) -> i32, i64 threads, error { i32 lock, i32 site, i64 key, i64 payload[4] } }
    kernel   = i32 (ptr ctx, ptr args, i64 begin, i64 end)

What holds: the caller sets `error.site` to -1 before a run; of several failures the one with the lowest (site, key)
is kept, whatever thread meets it first; `bl_run` and `bl_plan` return `OK`, `FAILED` (see `ctx.error`) or
`OUT_OF_MEMORY` (payload[0] bytes were wanted).
"""

from __future__ import annotations

from broadloom.codegen.llvm import FunctionBuilder, Param, Val, i32, i64

OK, FAILED, OUT_OF_MEMORY = 0, 1, 2
# Attributes of functions that run once a call or a chunk, and have no loops over data: not worth LLVM's time.
ONCE = "noinline optnone nounwind"
BLAS_ENTER, BLAS_LEAVE = "bl_blas_enter", "bl_blas_leave"  # around calls of the library: `runtime.blas`

ARRAY_SIZE, ARRAY_DATA, ARRAY_NDIM, ARRAY_DTYPE, ARRAY_SHAPE, ARRAY_STRIDES = 32, 0, 8, 12, 16, 24
CTX_ALLOC, CTX_FREE, CTX_PARALLEL_FOR, CTX_THREADS = 0, 8, 16, 24
ERROR_LOCK, ERROR_SITE, ERROR_KEY, ERROR_PAYLOAD = 32, 36, 40, 48
CTX_SIZE = ERROR_PAYLOAD + 4 * 8


def field(b: FunctionBuilder, struct: Val, offset: int) -> Val:
    """The address of the field `offset` bytes into a struct."""
    return b.gep("i8", struct, i64(offset)) if offset else struct


def fail(b: FunctionBuilder, ctx: Val, site: Val, key: Val, first: Val, second: Val) -> None:
    """Record a failure at `site` (i32) and `key` (i64), with two i64 for the message."""
    function = b.module.helper(
        "bl_fail",
        "void",
        [Param("ptr", "ctx"), Param("i32", "site"), *(Param("i64", n) for n in ("key", "first", "second"))],
        _build_fail,
        f"cold {ONCE}",
    )
    b.call(function, ctx, site, key, first, second)


def _build_fail(b: FunctionBuilder) -> None:
    ctx, site, key, first, second = b.params
    lock = field(b, ctx, ERROR_LOCK)
    spin, locked = b.block("spin"), b.block("locked")
    b.br(spin)
    b.at(spin)
    before = b.value("i32", f"atomicrmw xchg ptr {lock.text}, i32 1 acquire")
    b.cond_br(b.icmp("eq", before, i32(0)), locked, spin)
    b.at(locked)
    site_at, key_at = field(b, ctx, ERROR_SITE), field(b, ctx, ERROR_KEY)
    old_site, old_key = b.load("i32", site_at), b.load("i64", key_at)
    # Unsigned: the empty site, -1, is behind all others.
    earlier = b.and_(b.icmp("eq", site, old_site), b.icmp("slt", key, old_key))
    wins = b.or_(b.icmp("ult", site, old_site), earlier)

    def record() -> None:
        b.store(site, site_at)
        b.store(key, key_at)
        b.store(first, field(b, ctx, ERROR_PAYLOAD))
        b.store(second, field(b, ctx, ERROR_PAYLOAD + 8))

    b.if_then(wins, record)
    b.emit(f"store atomic i32 0, ptr {lock.text} release, align 4")
    b.ret()


def has_failed(b: FunctionBuilder, ctx: Val) -> Val:
    """i1: whether a failure is recorded."""
    return b.icmp("ne", b.load("i32", field(b, ctx, ERROR_SITE)), i32(-1))


def features_of(text: str) -> frozenset[str]:
    """The enabled features of an LLVM feature list.

    >>> sorted(features_of("+avx2,-avx512f,+fma"))
    ['avx2', 'fma']
    """
    return frozenset(f[1:] for f in text.split(",") if f.startswith("+"))
