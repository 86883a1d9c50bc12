"""Math functions that a module calls often, as functions of their own with a vector form.

What goes in: a finished module. What comes out: the same module, in which a math function with more than `LIMIT` call
sites, or a long one with several, is no longer inlined into each: loops that are vectors already call it as it is,
and LLVM's vectoriser calls the vector form, which it finds by the attribute `vector-function-abi-variant` of the scalar
one.

What holds: the instructions of both forms are those that were inlined, so no bit changes. Compile time grows with
the number of different functions instead of call sites; a chain of fifty takes a fifteenth of the time, and runs as
fast. Few call sites stay inline, where constants stay in registers over the whole loop; a function of more than
`LONG` instructions has too many for that. Calls on vectors are counted by themselves, each loop's twice.
"""

from __future__ import annotations

import re

from broadloom.codegen import llvm, vmath
from broadloom.codegen.lane import Lane
from broadloom.codegen.llvm import FunctionBuilder, ModuleBuilder, Param, Val

LIMIT = 4
LONG = 100
BODIES = 2  # of a loop whose vectors are written out: of whole vectors, and of what is left
_ATTRIBUTES = "noinline nounwind willreturn speculatable memory(none)"
_CALL = re.compile(r"call (float|double|<\d+ x (?:float|double)>) @(bl\.\w+\.(?:v\d+)?f(?:32|64))\(")
_WIDE = re.compile(r"(?:load|store) (?:double|i64)\b")
_BITS = {"float": 32, "double": 64}


def vector_bits(features: frozenset[str]) -> int:
    """The width of the registers that the vectoriser fills, by the enabled features of the target."""
    if "avx512f" in features and "prefer-256-bit" not in features:
        return 512
    return 256 if "avx2" in features else 128


def outline(module: ModuleBuilder, *, brief: bool = False) -> None:
    """Gives the math functions that `module` calls often a body of their own and a vector form; with `brief` those that
    it calls twice, and no vector form, which nothing would find."""
    text = "".join(map(str, module.functions))
    counts: dict[tuple[str, str], int] = {}
    for called in _CALL.findall(text):
        counts[called] = counts.get(called, 0) + 1
    bits = vector_bits(module.features)
    forms: list[Val] = []
    for (type_, name), count in counts.items():
        bodies = 1 if type_ in _BITS else BODIES
        if count <= (1 if brief else bodies * (1 if _instructions(module, name) > LONG else LIMIT)):
            continue
        if brief or type_ not in _BITS:  # the form for vectors that the module makes itself
            module.set_attributes(name, _ATTRIBUTES)
            continue
        lanes = [bits // _BITS[type_]]
        if type_ == "float" and _WIDE.search(text):
            lanes.append(bits // 64)  # in a loop with 64-bit elements beside
        made = [_vector_form(module, name, type_, n) for n in lanes if n > 1]
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * arity}_{name}({form})" for n, form, arity in made)
        tail = f' "vector-function-abi-variant"="{variants}"' if made else ""
        module.set_attributes(name, _ATTRIBUTES + tail)
        forms += [Val("ptr", f"@{form}") for _, form, _ in made]
    module.keep(forms)


def _instructions(module: ModuleBuilder, name: str) -> int:
    return str(module.find(name)).count(" = ")


def _vector_form(module: ModuleBuilder, name: str, element: str, lanes: int) -> tuple[int, str, int]:
    """Defines the form of `name` for so many lanes; gives lanes, the form's name and the number of arguments."""
    scalar = module.find(name)
    type_ = f"<{lanes} x {element}>"
    short = name.split(".")[1]
    form = f"bl.{short}.{llvm.mangle(type_)}"

    def build(b: FunctionBuilder) -> None:
        b.ret(vmath.body(short, [Lane(b, p) for p in b.params]).v)

    arguments = [Param(type_, letter) for letter in "xy"[: len(scalar.params)]]
    module.helper(form, type_, arguments, build, _ATTRIBUTES)
    return lanes, form, len(scalar.params)
