"""`broadloom`: the command line.

    broadloom demo                    compile and run the examples on real inputs
    broadloom doctor                  what this machine offers, what is off and why, and a self-test
    broadloom opt FILE                read a dumped graph or loop program back and take it further
    broadloom cache [--clear]         the object cache: where it is, what it holds

What goes in: arguments. What comes out: text on standard output and an exit status, 0 where all is well. Errors are
one line on standard error, without a traceback.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from broadloom import platform
from broadloom.codegen.driver import module_text
from broadloom.codegen.emit import emit
from broadloom.compiler.api import compile as compile_function
from broadloom.compiler.api import default_options
from broadloom.compiler.build import fuse
from broadloom.errors import BroadloomError, CacheError, OptionsError
from broadloom.fusion import parse as loop_parser
from broadloom.fusion.ir import Program
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify
from broadloom.graph.ir import Graph
from broadloom.graph.manager import parse_pipeline
from broadloom.graph.parse import parse as parse_graph
from broadloom.options import Options
from broadloom.passes.table import DEFAULT, PASSES
from broadloom.platform import Fact
from broadloom.runtime import blas, entry, probe, target
from broadloom.runtime.cache import ObjectCache

Array = np.ndarray[Any, Any]
PACKAGES = ("broadloom", "numpy", "llvmlite", "scipy", "ml_dtypes", "bytecode")
READABLE = (".graph", ".loops")  # a dump's fusion decisions (.txt) and module (.ll) are there to be read by people
STAGES = ("graph", "loops", "llvm", "assembly")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (BroadloomError, OSError) as error:
        print(f"broadloom: {error}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="broadloom", description="An array compiler for NumPy functions.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="compile and run the examples on real inputs")
    demo.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures (default: out)")
    demo.add_argument("--quick", action="store_true", help="smaller inputs")
    demo.set_defaults(run=_demo)
    doctor = commands.add_parser("doctor", help="what this machine offers, and a self-test")
    doctor.set_defaults(run=_doctor)
    opt = commands.add_parser("opt", help="read a dumped graph or loop program back")
    opt.add_argument("file", type=Path, help="a .graph or .loops file of BROADLOOM_DUMP")
    opt.add_argument("--pipeline", default=None, help=f"graph passes to run; the usual ones are {DEFAULT}")
    opt.add_argument("--to", choices=STAGES, default=None, help="the stage to print (default: that of the file)")
    opt.set_defaults(run=_opt)
    cache = commands.add_parser("cache", help="the object cache")
    cache.add_argument("--clear", action="store_true", help="remove all entries")
    cache.set_defaults(run=_cache)
    return parser


# ---- demo -------------------------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    root = Path(__file__).resolve().parent
    folder = next((f for f in (root / "examples", root.parent / "examples") if (f / "demo.py").exists()), None)
    if folder is None:
        raise OptionsError("the examples are not installed", remedy="run ./dev demo in a checkout of the project")
    sys.path.insert(0, str(folder))
    try:
        demo = runpy.run_path(str(folder / "demo.py"))
        status: int = demo["main"](options.out, quick=options.quick)
    finally:
        sys.path.remove(str(folder))
    return status


# ---- doctor -----------------------------------------------------------------------------------------------------


def _doctor(options: argparse.Namespace) -> int:
    facts = list(_facts())
    width = max(len(f.name) for f in facts)
    for fact in facts:
        print(f"{'ok ' if fact.ok else 'OFF'}  {fact.name:{width}}  {fact.value}")
        if not fact.ok and fact.remedy:
            print(f"     {'':{width}}  remedy: {fact.remedy}")
    return 0 if all(f.ok for f in facts) else 1


def _facts() -> Iterator[Fact]:
    yield from platform.describe()
    for package in PACKAGES:
        try:
            yield Fact(package, metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Fact(package, "not installed", package == "broadloom", f"pip install {package}")
    try:
        chosen = default_options()
    except OptionsError as error:
        yield Fact("options", str(error), False, "correct or unset the variable")
        return
    yield Fact("options", f"{chosen.num_threads} threads, {chosen.key()}")
    yield _cache_fact(chosen)
    yield Fact("toolchain", target.toolchain_version())
    yield Fact("target", str(target.host()))
    differences = probe.mismatches()
    yield Fact("object layouts", "; ".join(differences) or "as expected", not differences, "calls go through Python")
    yield Fact("entry", entry.self_test())
    yield _blas_fact()
    yield _self_test()


def _blas_fact() -> Fact:
    try:
        found = blas.control()
    except ImportError as error:
        return Fact("BLAS threads", str(error), False, "pip install scipy")
    if found is None:
        return Fact("BLAS threads", blas.UNCONTROLLED, False, "set the library's own variable, as OMP_NUM_THREADS")
    return Fact("BLAS threads", f"as many as a call has, by {found.name}")


def _self_test() -> Fact:
    """Compile a small function and hold it to NumPy."""

    def function(x: Array, y: Array) -> tuple[Array, Array]:
        return (np.sqrt(x) * y).sum(axis=0), (x + y).astype(np.float32)

    compiled = compile_function(function, fullgraph=True, options={"use_cache": False})
    x, y = np.arange(12.0).reshape(3, 4), np.linspace(0.0, 1.0, 4)
    for got, want in zip(compiled(x, y), function(x, y), strict=True):
        if got.dtype != want.dtype or not np.allclose(got, want, rtol=1e-12):
            return Fact("self-test", f"wrong: {got} instead of {want}", False, "report it with this output")
    return Fact("self-test", "compiled and equal to NumPy")


# ---- opt --------------------------------------------------------------------------------------------------------


def _opt(options: argparse.Namespace) -> int:
    if options.file.suffix not in READABLE:
        raise OptionsError(
            "a stage of this kind cannot be read back", got=str(options.file), allowed="*.graph and *.loops of a dump"
        )
    text = options.file.read_text(encoding="utf-8")
    if options.file.suffix == ".loops":
        if options.pipeline is not None or options.to == "graph":
            raise OptionsError("a loop program takes no graph passes", got=str(options.file), allowed="a .graph file")
        program = loop_parser.parse(text)
        verify(program)
        _print_program(program, options.to or "loops", _constants(options.file))
        return 0
    graph = parse_graph(text, constants=_constants(options.file))
    if options.pipeline is not None or options.to not in (None, "graph"):
        graph = parse_pipeline(DEFAULT if options.pipeline is None else options.pipeline, PASSES).run(graph)
    _print_graph(graph, options.to or "graph")
    return 0


def _constants(file: Path) -> dict[str, np.ndarray]:
    """The large arrays that a dump names by digest; they lie beside it."""
    beside = file.parent / "constants.npz"
    if not beside.exists():
        return {}
    with np.load(beside, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _print_graph(graph: Graph, to: str) -> None:
    if to == "graph":
        print(graph)
    else:
        _print_program(fuse(graph).program, to, dict(graph.constants))


def _print_program(program: Program, to: str, constants: dict[str, np.ndarray]) -> None:
    if to == "loops":
        print(print_program(program))
        return
    text = module_text(program, target.host(), constants, emit=emit)
    print(text if to == "llvm" else target.assembly(text))


# ---- cache ------------------------------------------------------------------------------------------------------


def _cache(options: argparse.Namespace) -> int:
    chosen = default_options()
    if options.clear:
        with ObjectCache(chosen.cache_dir) as store:
            print(f"removed {store.clear()} entries")
    fact = _cache_fact(chosen)
    print(fact)
    return 0 if fact.ok else 1


def _cache_fact(options: Options) -> Fact:
    """Where the object cache lies and what it holds, or why it is not used."""
    try:
        with ObjectCache(options.cache_dir) as store:
            entries, size = store.contents()
    except CacheError as error:
        return Fact("object cache", str(error), False, "compilation goes on without")
    return Fact("object cache", f"{options.cache_dir}: {entries} entries, {size / 2**20:.1f} MiB")


if __name__ == "__main__":
    sys.exit(main())
