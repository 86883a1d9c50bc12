"""How vectors go to and from memory, beside plain loads and stores: masked, past the caches, fetched ahead of time.

What goes in: vectors, addresses, masks with a lane for each element. What comes out: code at the current place. What
holds: memory of lanes that a mask leaves out is neither read nor written; a fetch never faults.
"""

from __future__ import annotations

from broadloom.codegen.llvm import FunctionBuilder, Val, element_of, i64, lanes_of, mangle, vector

LINE = 64  # bytes, of every processor that we generate code for


def has_masks(features: frozenset[str]) -> bool:
    """Whether vectors of all elements go to and from memory under masks."""
    return {"avx512vl", "avx512bw"} <= features


def first_lanes(b: FunctionBuilder, count: Val, lanes: int, first: int = 0) -> Val:
    """Which lanes of a vector, whose elements have the numbers from `first` on, are among the first `count`."""
    numbers = ", ".join(f"{count.type} {first + k}" for k in range(lanes))
    return b.icmp("slt", Val(vector(count.type, lanes), f"<{numbers}>"), b.splat(count, lanes))


def some_lanes(b: FunctionBuilder, count: Val, lanes: int) -> Val:
    """Which lanes of a vector are among the first `count`, which may be more than there are, but not negative: compared
    in few bits, for which it takes fewer instructions."""
    if lanes >= 128:
        return first_lanes(b, count, lanes)
    most = b.intrinsic("smin", count, i64(lanes))
    return first_lanes(b, b.int_cast(most, "i8", signed=True), lanes)


def masked_load(b: FunctionBuilder, type_: str, address: Val, align: int, mask: Val) -> Val:
    """The elements where the mask is true, zero elsewhere."""
    name = f"llvm.masked.load.{mangle(type_)}.p0"
    b.module.declare(name, type_, ("ptr", mask.type, type_))
    return b.value(type_, f"call {type_} @{name}(ptr align {align} {address.text}, {mask}, {type_} zeroinitializer)")


def masked_store(b: FunctionBuilder, value: Val, address: Val, align: int, mask: Val) -> None:
    """Stores the elements where the mask is true."""
    if element_of(value.type) in ("i8", "i16", "i32") and lanes_of(value.type) > 1:
        mask = b.and_(mask, _all_lanes(b, lanes_of(value.type)))
    name = f"llvm.masked.store.{mangle(value.type)}.p0"
    b.module.declare(name, "void", (value.type, "ptr", mask.type))
    b.emit(f"call void @{name}({value}, ptr align {align} {address.text}, {mask})")


def _all_lanes(b: FunctionBuilder, lanes: int) -> Val:
    """A mask of all lanes that LLVM does not know. Where it knows that one lane alone is stored, it stores an integer
    that was cut down to fewer bits with all the bits that it had before, and so over what lies behind."""
    type_ = f"i{lanes}"
    ones = b.module.global_(f"lanes.{lanes}", type_, "-1", align=8, kind="global")
    return b.bitcast(b.value(type_, f"load volatile {type_}, ptr {ones.text}, align 8"), f"<{lanes} x i1>")


def store_past(b: FunctionBuilder, value: Val, address: Val, align: int) -> None:
    """Stores past the caches. `align` is the size of the value, or of the parts that are stored at once."""
    b.store(value, address, align, f", !nontemporal {b.module.metadata('i32 1')}")


def emit_fence(b: FunctionBuilder) -> None:
    """Orders the stores before it that went past the caches; elsewhere than on x86 they have an order already."""
    if b.module.triple.startswith(("x86_64", "amd64")):
        b.module.declare("llvm.x86.sse.sfence", "void", ())
        b.emit("call void @llvm.x86.sse.sfence()")


def emit_prefetch(b: FunctionBuilder, address: Val) -> None:
    """Fetches a line into the caches but the first, to be read."""
    b.module.declare("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
    b.emit(f"call void @llvm.prefetch.p0(ptr {address.text}, i32 0, i32 2, i32 1)")
