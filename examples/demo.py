"""All examples on real inputs: NumPy's time, the first call, the steady time, the speed-up and the largest error.

Functions of one example that were batched are compared with a loop of NumPy over the examples. Pictures are saved
beside: the photographs before and after, the temperature field of the plate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import american_options
import black_scholes
import heat
import image_pipeline
import image_statistics
import kalman
import kmeans
import numpy as np
from PIL import Image
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import broadloom as bl

REPEATS = 7
BATCHED_REPEATS = 3  # of loops over examples, which take their time


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; times in seconds."""

    name: str
    numpy: float
    first: float
    steady: float
    error: float
    kernels: int


def measure(name: str, function: Callable[..., Any], *arguments: Any) -> tuple[Row, Any]:
    """Time a function plain and compiled, calls taking turns, and compare the results; the row and the result."""
    return compare(name, function, lambda: function(*arguments), *arguments)


def compare(
    name: str, function: Callable[..., Any], plain: Callable[[], Any], *arguments: Any, repeats: int = REPEATS
) -> tuple[Row, Any]:
    """As `measure`; `plain` computes with NumPy what the compiled function is to give."""
    compiled = bl.compile(function, fullgraph=True)
    start = time.perf_counter()
    got = compiled(*arguments)
    first = time.perf_counter() - start
    times: dict[Any, list[float]] = {plain: [], compiled: []}
    for _ in range(repeats):
        for call, found in times.items():
            start = time.perf_counter()
            result = plain() if call is plain else call(*arguments)
            found.append(time.perf_counter() - start)
            if call is plain:
                want = result
    kernels = len(compiled.report().kernels)
    usual, steady = (float(np.median(found)) for found in times.values())
    return Row(name, usual, first, steady, largest_error(got, want), kernels), got


def one_by_one(function: Callable[..., Any], loops: tuple[int, ...], *arguments: np.ndarray) -> Any:
    """The results of `function` for each example, stacked; the examples lie along the first axes, of sizes `loops`."""
    results = [function(*(a[index] for a in arguments)) for index in np.ndindex(loops)]
    if not isinstance(results[0], tuple):
        return np.reshape(results, (*loops, *np.shape(results[0])))
    return tuple(np.reshape(column, (*loops, *np.shape(column[0]))) for column in zip(*results, strict=True))


def batched(name: str, one: Callable[..., Any], many: Callable[..., Any], axes: int, *arguments: Any) -> Row:
    """The row of a batched function; examples lie along `axes` axes of the arguments, which broadcast there."""
    loops = np.broadcast_shapes(*(np.shape(a)[:axes] for a in arguments))
    whole = [np.broadcast_to(a, (*loops, *np.shape(a)[axes:])) for a in arguments]
    return compare(name, many, lambda: one_by_one(one, loops, *whole), *arguments, repeats=BATCHED_REPEATS)[0]


def largest_error(got: Any, want: Any) -> float:
    """The largest absolute difference between results of one structure."""
    if isinstance(want, tuple):
        return max(largest_error(a, b) for a, b in zip(got, want, strict=True))
    return float(np.max(np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64)), initial=0.0))


def heat_picture(field: np.ndarray) -> Image.Image:
    """Temperatures from 0 (black) over red and yellow to 1 (white)."""
    channels = [np.clip(3.0 * field - k, 0.0, 1.0) for k in range(3)]
    return Image.fromarray((np.stack(channels, axis=-1) * 255).astype(np.uint8))


def show(rows: list[Row], console: Console) -> None:
    """Print the table."""
    table = Table(title="NumPy functions, unchanged, compiled by Broadloom (times in ms)", box=SIMPLE)
    for title in ("example", "NumPy", "first", "steady", "speed-up", "error", "kernels"):
        table.add_column(title, justify="left" if title == "example" else "right", no_wrap=True)
    for row in rows:
        times = (f"{1e3 * seconds:.1f}" for seconds in (row.numpy, row.first, row.steady))
        table.add_row(row.name, *times, f"{row.numpy / row.steady:.1f}x", f"{row.error:.1e}", str(row.kernels))
    console.print(table)


def batched_rows(quick: bool) -> Iterator[Row]:
    """The examples that batch a function of one example."""
    count = 50 if quick else 2000
    measured, state, spread, _ = kalman.objects(count, 3 if quick else 8)
    yield batched(f"Kalman, {count} objects", kalman.follow, kalman.follow_all, 1, measured, state, spread)
    size = (8, 5) if quick else (80, 40)
    market = american_options.market(*size)
    options = american_options.american_put
    yield batched(f"American puts, {size[0]}x{size[1]}", options.__wrapped__, options, 2, *market)
    tiles = image_statistics.tiles(image_pipeline.photographs()["china"], 64 if quick else 32)
    many = image_statistics.statistics_of_tiles
    yield batched(f"statistics, {tiles.shape[0]}x{tiles.shape[1]} tiles", image_statistics.statistics, many, 2, tiles)


def main(out: Path, *, quick: bool = False) -> int:
    """Run all examples; pictures go to the folder `out`. `quick` takes smaller inputs."""
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.width = max(console.width, 96)
    rows: list[Row] = []
    with Progress(console=console) as progress:
        task = progress.add_task("examples", total=8)
        options = black_scholes.options(10_000 if quick else 1_000_000)
        rows.append(measure(f"Black-Scholes {len(options[0]):.0e}", black_scholes.price, *options)[0])
        progress.advance(task)
        for name, photo in image_pipeline.photographs().items():
            row, enhanced = measure(f"photograph {name}", image_pipeline.enhance, photo)
            rows.append(row)
            Image.fromarray(photo).save(out / f"{name}-before.png")
            Image.fromarray(enhanced).save(out / f"{name}-after.png")
            progress.advance(task)
        size = 256 if quick else 1024
        row, field = measure(f"heat, {size}x{size}", heat.advance, heat.plate(size))
        rows.append(row)
        advance = bl.compile(heat.advance)
        for _ in range(20 if quick else 200):
            field = advance(field)
        heat_picture(field).save(out / "heat.png")
        progress.advance(task)
        points, centres = kmeans.digits()
        rows.append(measure("k-means, digits", kmeans.kmeans_step, points, centres)[0])
        progress.advance(task)
        for row in batched_rows(quick):
            rows.append(row)
            progress.advance(task)
    show(rows, console)
    console.print(f"pictures: {out.resolve()}")
    return 0
