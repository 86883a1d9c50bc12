"""Compile times, each in a process of its own: `python -m benchmarks.first_call mixed 100` prints seconds as JSON.

What goes in: the kind of a chain and its number of elementwise ops; the cache folder comes from the environment, so
that the caller chooses between cold and warm. What comes out: the times of importing NumPy, of importing Broadloom
after it, and of the first and the second call.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHAINS: dict[str, tuple[str, ...]] = {
    "mixed": ("x * y", "x + y", "x - 0.25", "np.sin(x)", "np.maximum(x, -y)"),
    "add, multiply": ("x * y", "x + y"),
    "sin, exp": ("np.sin(x)", "np.exp(x)"),
    "where, compare": ("np.where(x > y, x - 0.5, x)", "x + 0.125", "x * 0.875"),
    "unlike": (),  # drawn at random from UNLIKE, so that no two kernels have the same code
}
UNLIKE = (
    *("x * y", "x + y", "x - 0.25", "x / y", "np.sin(x)", "np.exp(x)", "np.tanh(x)", "np.log(x * x + 1)"),
    *("np.sqrt(np.abs(x))", "np.maximum(x, -y)", "np.where(x > y, x - 0.5, x)"),
)
SIZES = (("mixed", 10), ("mixed", 100), *((kind, count) for kind in CHAINS for count in (1000, 2000)))


def chain_source(kind: str, count: int) -> str:
    """A function of `count` elementwise steps, no two of which are the same expression of the same values."""
    draw = random.Random(0)
    steps = CHAINS[kind]
    chosen = [steps[k % len(steps)] if steps else draw.choice(UNLIKE) for k in range(count)]
    return "\n".join(["def chain(x, y):", *(f"    x = {step}" for step in chosen), "    return x"])


def measure_chain(kind: str, count: int) -> dict[str, float]:
    """Seconds of the imports, of the first call and of the second."""
    start = time.perf_counter()
    import numpy as np  # noqa: PLC0415  # the import is what is timed

    numpy_done = time.perf_counter()
    import broadloom as bl  # noqa: PLC0415

    imported = time.perf_counter()
    namespace: dict[str, object] = {"np": np}
    exec(compile(chain_source(kind, count), "<chain>", "exec"), namespace)
    function = bl.compile(namespace["chain"])
    x, y = np.linspace(0.1, 0.9, 1000), np.linspace(0.5, 0.7, 1000)
    made = time.perf_counter()
    function(x, y)
    first = time.perf_counter()
    function(x, y)
    second = time.perf_counter()
    return {
        "numpy": numpy_done - start,
        "import": imported - numpy_done,
        "first": first - made,
        "second": second - first,
    }


def in_new_process(kind: str, count: int, environment: dict[str, str]) -> dict[str, float]:
    """`measure_chain` in a fresh interpreter."""
    command = [sys.executable, "-m", "benchmarks.first_call", kind, str(count)]
    seconds: dict[str, float] = json.loads(subprocess.check_output(command, env=environment, cwd=ROOT))
    return seconds


def cold_and_warm(kind: str, count: int) -> tuple[dict[str, float], dict[str, float]]:
    """Two new processes with one cache folder, which is empty for the first. The modules are compiled to bytecode
    beforehand, as in an installed package, whatever the caller's environment says about writing bytecode."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        environment["BROADLOOM_CACHE_DIR"] = str(Path(folder) / "unused")
        in_new_process("mixed", 1, environment)
        environment["BROADLOOM_CACHE_DIR"] = str(Path(folder) / "cache")
        return in_new_process(kind, count, environment), in_new_process(kind, count, environment)


if __name__ == "__main__":
    print(json.dumps(measure_chain(sys.argv[1], int(sys.argv[2]))))
