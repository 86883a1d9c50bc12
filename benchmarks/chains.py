"""First calls of chains of one elementwise function: `python -m benchmarks.chains --only interp --counts 100 200`.

What goes in: names of functions, dtypes, lengths of chains. What comes out: a line for each function and dtype, with
the processor seconds of the first call of each length, the cache empty, and the step that the chain repeats. What
holds: functions are those of the frontend - every ufunc, every formula over ufuncs, searches - where NumPy has a loop
for the dtype. A step that leads to another dtype is led back, which adds a cast and an addition to it.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Iterator

import numpy as np

import broadloom as bl
from broadloom.frontend import FUNCTIONS, elementwise, searching
from broadloom.frontend.table import UFUNCS

DTYPES = ("float64", "float32", "int64", "uint8", "bool", "complex128")
COUNTS = (100, 200, 400, 1000)
LIMIT = 20.0  # seconds of a call after which no longer chain of its kind is made
STEPS = {
    np.where: "np.where(x > y, x, y)",
    np.select: "np.select([x > y, x < 3], [x, y], 1)",
    np.choose: "np.choose(k, [x, y, x, y], mode='clip')",
    np.clip: "np.clip(x, y, z)",
    np.round: "np.round(x, 2)",
    np.isclose: "np.isclose(x, y)",
    np.ldexp: "np.ldexp(x, k)",
    np.interp: "np.interp(x, p, q)",
    np.searchsorted: "np.searchsorted(p, x)",
    np.digitize: "np.digitize(x, p)",
    np.isin: "np.isin(x, p[:5])",
}
OTHERS = {"x.real": "x.real", "x.imag": "x.imag", "astype": "x.astype(np.float32).astype(d)", "x ** 3": "x ** 3"}
BACK = "({}).astype(d) + y"


def steps() -> Iterator[tuple[str, str]]:
    """The name of each function, and what one step of its chain is."""
    for u in UFUNCS:
        call = STEPS.get(u, f"np.{u.__name__}({', '.join('xyz'[: u.nin])})")
        yield u.__name__, call if u.nout == 1 else f"{call}[0] + {call}[1]"
    rooms = (elementwise.__name__, searching.__name__)
    for function, entry in FUNCTIONS.items():
        if not isinstance(function, np.ufunc) and getattr(entry.run, "__module__", "") in rooms:
            yield function.__name__, STEPS.get(function, f"np.{function.__name__}(x)")
    yield from OTHERS.items()


def arguments(dtype: str) -> dict[str, np.ndarray]:
    """What the steps read."""
    d = np.dtype(dtype)
    draw = np.random.default_rng(0)
    values = draw.integers(0, 2, (3, 1000)) if d.kind == "b" else draw.integers(1, 7, (3, 1000))
    if d.kind in "fc":
        values = values + draw.random((3, 1000))
    x, y, z = values.astype(d)
    return {"x": x, "y": y, "z": z, "k": draw.integers(0, 5, 1000), "p": np.linspace(0, 9, 20), "q": draw.random(20)}


def step_of(step: str, dtype: str) -> str | None:
    """The step, led back to the dtype of the chain where it gives another; None where NumPy has no loop."""
    given = arguments(dtype)
    with np.errstate(all="ignore"):
        for text in (step, BACK.format(step)):
            try:
                result = eval(text, {"np": np, "d": np.dtype(dtype)}, given)
            except TypeError:
                return None
            if np.asarray(result).dtype == np.dtype(dtype):
                return text
    return None


def first_call(step: str, dtype: str, count: int) -> float:
    """Processor seconds of the first call of a chain."""
    given = arguments(dtype)
    scope = {"np": np, "d": np.dtype(dtype)}
    text = "\n".join([f"def chain({', '.join(given)}):", *[f"    x = {step}"] * count, "    return x"])
    exec(compile(text, "<chain>", "exec"), scope)
    with tempfile.TemporaryDirectory() as folder:
        function = bl.compile(scope["chain"], fullgraph=True, options={"cache_dir": folder})
        gc.collect()  # of what calls before have left
        start = time.process_time()
        function(**given)
        return time.process_time() - start


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of functions")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES)
    parser.add_argument("--counts", nargs="*", type=int, default=COUNTS)
    asked = parser.parse_args()
    first_call("x + y", "float64", 1)
    for name, plain in steps():
        for dtype in asked.dtypes if not asked.only or name in asked.only else ():
            step = step_of(plain, dtype)
            if step is None:
                continue
            seconds: list[float] = []
            for count in asked.counts:
                if seconds and seconds[-1] > LIMIT:
                    break
                seconds.append(first_call(step, dtype, count))
            print(f"{name:16} {dtype:11}", *(f"{s:7.3f}" for s in seconds), " ", step, flush=True)


if __name__ == "__main__":
    main()
