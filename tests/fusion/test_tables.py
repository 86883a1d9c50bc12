"""Which functions of a byte go into tables: decisions with their reasons, and what the verifier holds tables to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from broadloom.compiler.api import make_graph
from broadloom.dtypes import float32, float64, int8, uint8
from broadloom.errors import VerifyError
from broadloom.fusion.cost import body_cost, tables_cost
from broadloom.fusion.handlers import Recording
from broadloom.fusion.ir import Body, Buffer, Compute, Kernel, Layout, Literalv, Load, Loop, Stage, Store
from broadloom.fusion.lower import lower
from broadloom.fusion.lowerings.table import LOWERINGS
from broadloom.fusion.memory_plan import buffers_of
from broadloom.fusion.schedule import schedule
from broadloom.fusion.tables import Direct, Tabulate, tabulate, worthwhile
from broadloom.fusion.verify import verify
from broadloom.graph.order import value_orders
from broadloom.passes.table import default_pipeline
from broadloom.symbolic import Symbol

f4 = np.float32


def decided(function, *arrays, dynamic=False):
    graph = default_pipeline().run(make_graph(function, dynamic=dynamic)(*arrays))
    found = schedule(lower(graph, value_orders(graph), LOWERINGS))
    verify(found.program)
    return found


def photo(rng, *shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


def test_the_whole_function_goes_into_the_table(rng):
    found = decided(lambda x: np.clip((x.astype(f4) / 255) ** f4(0.8) * f4(2), 0, 1), photo(rng, 100, 100))
    (kernel,) = found.program.steps
    (table,) = kernel.tables
    assert [type(i).__name__ for i in kernel.stages[0].body.instructions] == ["Load", "Lookup", "Store"]
    assert (table.key, table.dtype, table.entries) == (uint8, float32, 256)
    (decision,) = found.tables
    assert str(decision) == (
        "kernel0, cast+divide+pow+multiply+clip of uint8: in a table, 256 entries for 10000 points"
    )


def test_sizes_decide(rng):
    few = decided(lambda x: np.sin(x.astype(f4)), photo(rng, 30, 30))
    assert [str(d) for d in few.tables] == [
        "kernel0, cast+sin of uint8: at each point, 900 points are few beside 256 entries"
    ]
    assert not few.program.steps[0].tables
    assert decided(lambda x: np.sin(x.astype(f4)), photo(rng, 60, 60)).program.steps[0].tables
    unknown = decided(lambda x: np.sin(x.astype(f4)), photo(rng, 30, 30), dynamic=True)
    assert unknown.program.steps[0].tables
    assert "256 entries for s0*s1 points, if these are many" in str(unknown.tables[0])
    assert decided(lambda x: np.sin(x.astype(f4)), photo(rng, 30, 30) > 9).program.steps[0].tables


def test_a_bounded_size_counts_as_its_bound():
    n = Symbol("n", 0, 100)
    assert isinstance(worthwhile(2.0, 256, n), Direct) and isinstance(worthwhile(2.0, 256, n * n), Tabulate)
    assert isinstance(worthwhile(2.0, 256, Symbol("m")), Tabulate)
    assert worthwhile(0.5, 256, 10**9) == Direct("a look-up costs as much")
    assert isinstance(worthwhile(0.5, 2, 10**9), Tabulate)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: x.astype(f4) / 255,  # cheap
        lambda x, y, z: np.exp(x.astype(f4)),  # in vectors as fast as a look-up
        lambda x, y, z: x % np.uint8(7),
        lambda x, y, z: np.sin(x.astype(f4) + y),  # of two bytes
        lambda x, y, z: x.astype(f4) ** z,  # of a value of each point
        lambda x, y, z: np.sin(z),
        lambda x, y, z: np.sin(x.astype(np.uint16).astype(f4) + y.astype(np.uint16) * z),
    ],
)
def test_what_stays_at_each_point(function, rng):
    x, y, z = photo(rng, 100, 100), photo(rng, 100, 100), rng.random((100, 100), f4)
    found = decided(function, x, y, z)
    assert not any(k.tables for k in found.program.steps)
    assert all(isinstance(d.outcome, Direct) for d in found.tables)


def sines(frequency_buffer, frequency_index, *, count=1, stored="o", dtype=float64):
    """o[i] = the sum of sin(x[i] * frequency * k) for k below `count`."""
    i = Loop(Symbol("i", 0, 9999), 10_000)
    r = Recording()
    x = r.compute("cast", (r.load("x", i.variable, uint8),), dtype, (("dtype", dtype),))
    frequency = r.load(frequency_buffer, frequency_index, dtype)
    for k in range(count):
        factor = r.literal(dtype, np.asarray(k, dtype.numpy).tobytes())
        phase = r.compute("multiply", (r.compute("multiply", (x, frequency), dtype), factor), dtype)
        r.store(stored, i.variable + 10_000 * k, r.compute("sin", (phase,), dtype))
    buffers = {
        "x": Buffer("x", uint8, Layout((10_000,), (1,)), "input", 0),
        "f": Buffer("f", dtype, Layout((2,), (1,)), "input", 1),
        "n": Buffer("n", dtype, Layout((Symbol("s0"),), (1,)), "input", 2),
        "w": Buffer("w", dtype, Layout((), ()), "workspace"),
        "o": Buffer("o", dtype, Layout((10_000 * count,), (1,)), "output", 0),
    }
    return Kernel("k", (i,), (Stage((), r.body()),)), buffers


def test_what_a_table_may_load():
    kernel, _ = tabulate(*sines("f", 1))
    assert len(kernel.tables) == 1 and "f" in buffers_of(kernel)
    assert len(tabulate(*sines("w", 0))[0].tables) == 1
    i = sines("f", 1)[0].outer[0].variable
    for buffer, index, stored in (
        ("f", i % 2, "o"),  # another at each point
        ("n", 0, "o"),  # not there where the array is empty
        ("f", 2, "o"),  # beyond its end: loaded, if at all, where a mask allows
        ("o", 0, "o"),  # changed by the kernel itself
        ("f", 1, "f"),
    ):
        assert not tabulate(*sines(buffer, index, stored=stored))[0].tables


def test_tables_stay_within_the_nearest_cache():
    kernel, decisions = tabulate(*sines("f", 0, count=12))
    assert len(kernel.tables) == 8 and sum(t.entries * t.dtype.itemsize for t in kernel.tables) == 16 << 10
    refused = [d for d in decisions if isinstance(d.outcome, Direct)]
    assert len(refused) == 4 and all("would exceed 16384 bytes" in d.outcome.reason for d in refused)


def test_a_point_costs_less_and_filling_is_counted():
    kernel, buffers = sines("f", 0)
    changed, _ = tabulate(kernel, buffers)
    assert body_cost(changed.stages[0].body) < body_cost(kernel.stages[0].body)
    assert tables_cost(kernel) == 0 and tables_cost(changed) > 256


def test_the_verifier_holds_tables_to_their_form(rng):
    found = decided(lambda x: np.sin(x.astype(f4)), photo(rng, 100, 100))
    (kernel,) = found.program.steps
    (table,) = kernel.tables
    body = table.body
    wrong = {
        "the name of another table": (table, table),
        "or of a buffer": (replace(table, name="in0"),),
        "no such table": (),
        "of other dtypes": (replace(table, key=int8),),
        "end with its entry": (replace(table, dtype=float64),),
        "the values of one byte": (replace(table, variable=Symbol("byte", 0, 9)),),
        "no pure function": (replace(table, body=_ending(Store("in0", 0, 0), body)),),
        "reads what its kernel stores": (replace(table, body=_behind(Load("out0", 0, float32), body)),),
    }
    for what, tables in wrong.items():
        with pytest.raises(VerifyError, match=what):
            verify(replace(found.program, steps=(replace(kernel, tables=tables),)))
    literal = replace(table, body=replace(body, instructions=(Literalv(float32, bytes(4)),)))
    verify(replace(found.program, steps=(replace(kernel, tables=(literal,)),)))


def _ending(instruction, body):
    """The body with another instruction before the last."""
    *first, last = body.instructions
    return Body((*first, instruction, last))


def _behind(instruction, body):
    """The body with another instruction in first place."""
    return Body((instruction, *(_shifted(i) for i in body.instructions)))


def _shifted(i):
    return replace(i, args=tuple(a + 1 for a in i.args)) if isinstance(i, Compute) else i
