"""The machine we generate code for, and the road from LLVM text to object bytes.

What goes in: LLVM IR text and a `Target`. What comes out: a relocatable object (position independent, so that it
links both into this process and into a shared library), or assembly text. What holds: every module is verified
before any pass runs, since LLVM's passes may crash the process on a malformed one; each module lives in a context
of its own, so nothing accumulates over many compilations; an equal (text, target, level) gives equal bytes. A module
that is `READY` has its vectors written out, and goes through a few passes; others get LLVM's own pipeline, for its loop
vectoriser; one of both kinds is optimised in two parts, which are linked before the code generator runs.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

from broadloom.codegen.parts import is_ready, parts_of
from broadloom.errors import CodegenError
from broadloom.lazy import llvm, llvmlite
from broadloom.platform import Caches, caches
from broadloom.records import dataclass

# llvmlite lets one thread into LLVM at a time. We hold a lock of our own around that, which a child of `fork` never
# inherits in the hands of a thread that it does not have: fork waits until compilation is over.
llvm_lock = threading.RLock()
os.register_at_fork(before=llvm_lock.acquire, after_in_parent=llvm_lock.release, after_in_child=llvm_lock.release)

LEVELS = (0, 1, 2, 3)
_SLOW_512 = ("skylake-avx512", "cascadelake", "cooperlake", "cannonlake")  # lower their clock for 512-bit code
DEFAULT_LEVEL = 2
QUICK_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Target:
    """What code is generated for. `features` is LLVM's list ("+avx2,+fma,-avx512f"); `vector_bits` is the widest
    vector register that pays; `caches` are what loops are blocked for.

    >>> t = host()
    >>> t.vector_bits in (128, 256, 512), t.triple.count("-") >= 2
    (True, True)
    """

    triple: str
    cpu: str
    features: str
    has_fma: bool
    vector_bits: int
    caches: Caches = Caches()

    def __str__(self) -> str:
        return f"{self.triple}, {self.cpu}, {self.vector_bits}-bit vectors{', fma' if self.has_fma else ''}"

    @property
    def family(self) -> str:
        """The kind of machine, as far as tables of what is faster on which tell machines apart.

        >>> Target("x86_64-unknown-linux-gnu", "", "", True, 256).family
        'x86_64, 256-bit vectors, fma'
        """
        return f"{self.triple.split('-')[0]}, {self.vector_bits}-bit vectors{', fma' if self.has_fma else ''}"

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits one vector register holds, at least 1."""
        return max(1, self.vector_bits // max(8, bits))


def toolchain_version() -> str:
    """The versions that decide what bytes come out: llvmlite's and LLVM's.

    >>> toolchain_version().startswith("llvmlite ")
    True
    """
    return f"llvmlite {llvmlite.load().__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


@cache
def _initialise_native() -> None:
    # LLVM 22.1 moves the last reader of a register above what it makes equal to it, and runs off the end of the block
    # where there is nothing else: a kernel in some thousands, for which it aborts the process.
    llvm.set_option("broadloom", "-twoaddr-reschedule=false")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def host() -> Target:
    """The machine this process runs on. Raises `CodegenError` where LLVM has no target for it."""
    with llvm_lock:
        _initialise_native()
        triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
        features: dict[str, bool] = dict(llvm.get_host_cpu_features())
    if features.get("avx512f"):
        # Said here rather than left to LLVM's tuning of the CPU, so that code generation knows the vectoriser's width.
        features["prefer-256-bit"] = cpu in _SLOW_512
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    architecture = triple.split("-")[0]
    if architecture in ("x86_64", "amd64"):
        has_fma = features.get("fma", False)
        wide = features.get("avx512f") and not features["prefer-256-bit"]
        bits = 512 if wide else 256 if features.get("avx2") else 128
    else:  # AArch64's fmadd and 128-bit NEON are part of the base architecture
        has_fma, bits = architecture in ("aarch64", "arm64"), 128
    return Target(triple, cpu, text, has_fma, bits, caches())


@cache
def _machine(target: Target, level: int) -> Any:
    """LLVM's machine, one for all modules: to read the features takes it a millisecond."""
    if level not in LEVELS:
        raise CodegenError("unknown optimisation level", got=level, allowed=", ".join(map(str, LEVELS)))
    _initialise_native()
    try:
        description = llvm.Target.from_triple(target.triple)
        # The small code model, not llvmlite's default for JITs (large): its calls go through the linker's stubs, and
        # the same object can become part of a shared library.
        return description.create_target_machine(
            cpu=target.cpu,
            features=target.features,
            opt=0 if level == QUICK_LEVEL else level,
            reloc="pic",
            codemodel="default",
        )
    except RuntimeError as error:
        raise CodegenError("LLVM has no code generator for this target", got=target.triple) from error


def parse(text: str, target: Target, context: Any = None) -> Any:
    """The verified LLVM module of `text`, in a context of its own. Raises `CodegenError` with LLVM's message."""
    _initialise_native()
    try:
        module = llvm.parse_assembly(text, context or llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CodegenError("LLVM refused a generated module", got=str(error).strip()) from error
    module.triple = target.triple
    return module


def _optimised(text: str, target: Target, level: int) -> tuple[Any, Any]:
    machine = _machine(target, level)
    parts = parts_of(text) if level >= QUICK_LEVEL else None
    if parts is None:
        return _passed(text, target, level, llvm.create_context()), machine
    context = llvm.create_context()
    module, plain = (_passed(x, target, level, context) for x in (parts.others, parts.plain))
    try:
        module.link_in(plain)
        for name in parts.opened:
            module.get_function(name).linkage = "internal"
        module.verify()
    except RuntimeError as error:
        raise CodegenError("LLVM could not link the parts of a module", got=str(error)) from error
    return module, machine


def _passed(text: str, target: Target, level: int, context: Any) -> Any:
    """The module of `text` after the passes."""
    module = parse(text, target, context)
    machine = _machine(target, level)
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(DEFAULT_LEVEL if level == QUICK_LEVEL else level)
    options.loop_vectorization = level >= QUICK_LEVEL
    # Kernels come as plain loops: straight-line (SLP) vectorisation finds next to nothing in them and costs time;
    # unrolling beyond the vectoriser's own interleaving only makes code larger.
    options.slp_vectorization = False
    options.loop_unrolling = level >= 3
    builder = llvm.create_pass_builder(machine, options)
    passes = _few_passes() if level >= QUICK_LEVEL and is_ready(text) else builder.getModulePassManager()
    passes.run(module, builder)
    return module


def _few_passes() -> Any:
    """What code without loops to vectorise gains by: a fifth of the time of LLVM's own pipeline, and no slower code."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()  # before the next, or solves of small systems run 4 % longer
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()
    return passes


def emit_object(text: str, target: Target, level: int = DEFAULT_LEVEL) -> bytes:
    """Compiles LLVM IR text to a relocatable object.

    Level 0 does not optimise; 1 is level 2 with LLVM's quick code generator; 2 is the default; 3 unrolls loops as well.

    >>> emit_object("define i32 @f() { ret i32 1 }", host())[:4]
    b'\\x7fELF'

    Raises `CodegenError` when the text does not parse or verify, or the level is unknown.
    """
    with llvm_lock:
        return _object(text, target, level)


def _object(text: str, target: Target, level: int) -> bytes:
    # A function of its own: module and machine are disposed of, inside LLVM, when it returns, so still under the lock.
    module, machine = _optimised(text, target, level)
    try:
        return bytes(machine.emit_object(module))
    except RuntimeError as error:
        raise CodegenError("LLVM could not emit an object", got=str(error)) from error


def assembly(text: str, target: Target | None = None, level: int = DEFAULT_LEVEL) -> str:
    """The assembly text of a module, for reading and for tests."""
    with llvm_lock:
        return _assembly(text, target if target is not None else host(), level)


def _assembly(text: str, target: Target, level: int) -> str:
    module, machine = _optimised(text, target, level)
    return str(machine.emit_assembly(module))
