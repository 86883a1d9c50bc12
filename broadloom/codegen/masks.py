"""Vectors of which a mask says what is there.

What goes in: a mask with a lane for each element. What comes out: loads and stores of the elements where it is true.
What holds: memory of the other lanes is neither read nor written.
"""

from __future__ import annotations

from broadloom.codegen.llvm import FunctionBuilder, Val, element_of, lanes_of, mangle


def masked_load(b: FunctionBuilder, type_: str, address: Val, align: int, mask: Val) -> Val:
    """The elements where the mask is true, zero elsewhere."""
    name = f"llvm.masked.load.{mangle(type_)}.p0"
    b.module.declare(name, type_, ("ptr", mask.type, type_))
    return b.value(type_, f"call {type_} @{name}(ptr align {align} {address.text}, {mask}, {type_} zeroinitializer)")


def masked_store(b: FunctionBuilder, value: Val, address: Val, align: int, mask: Val) -> None:
    """Stores the elements where the mask is true."""
    if element_of(value.type) in ("i8", "i16") and lanes_of(value.type) > 1:
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
