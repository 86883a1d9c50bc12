"""Random loop programs: native code, whatever the split of its points, agrees with the interpreter."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broadloom.dtypes import bool_, float64, int64, uint8
from broadloom.fusion.evaluate import Failure, evaluate
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Buffer,
    Indirect,
    Kernel,
    Layout,
    Masked,
    Reduce,
    Running,
    Site,
    Stage,
)
from broadloom.fusion.parse import parse
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify
from broadloom.symbolic import Symbol, product

from .programs import Failed, Native, Written, loop, program, strides_of

SIZES = (1, 2, 3, 5, 8, 9, 70)
KINDS = {
    int64: ("sum", "prod", "max", "min", "xor", "argmax", "argmin"),
    float64: ("sum", "max", "min", "fmax", "fmin", "argmax", "argmin"),
    uint8: ("max", "min", "argmin"),
}
BINARY = {
    int64: ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_xor"),
    float64: ("add", "subtract", "maximum", "minimum", "fmax"),
    uint8: ("add", "bitwise_and", "maximum"),
}


class Maker:
    """One random program over three axes, each of a constant or symbolic size."""

    def __init__(self, random):
        self.random = random
        self.dims = tuple(Symbol(f"d{k}") if random.random() < 0.6 else random.choice(SIZES) for k in range(3))
        self.axes = random.sample(range(3), random.randint(1, 3))
        self.outer = self.axes[: random.randint(0, len(self.axes))]
        self.inner = self.axes[len(self.outer) :]
        self.dtypes = [random.choice((int64, float64, uint8)) for _ in range(2)]
        self.accumulators, self.outputs = [], []
        self.uses_check = False

    def input(self, position):
        order = self.random.sample(range(3), 3)
        strides = [None] * 3
        step = 1
        for axis in reversed(order):
            strides[axis] = step
            step = step * self.dims[axis]
        return Buffer(f"x{position}", self.dtypes[position], Layout(self.dims, tuple(strides)), "input", position)

    def index(self, buffer, variables, checked=None):
        """A place that lies in the buffer whenever the loops run at all."""
        total = 0
        for axis in range(3):
            v = variables.get(axis)
            if v is None or self.random.random() < 0.1:
                continue
            if self.random.random() < 0.2:
                v = self.dims[axis] - 1 - v
            if checked is not None and checked[0] == axis:
                v = checked[1]
            total = total + v * buffer.layout.strides[axis]
        return total

    def value(self, w, inputs, variables, dtype, depth=0):
        choice = self.random.random()
        if depth > 3 or choice < 0.3:
            held = [b for b in inputs if b.dtype is dtype]
            if held and len(variables) == 3:
                return w.load(held[0].name, self.index(held[0], variables), dtype)
            if dtype is int64 and variables:
                axis = self.random.choice(sorted(variables))
                return w.index(variables[axis] * 3 - self.dims[axis])
            return w.number(dtype, self.random.randint(0, 9))
        a, b = (self.value(w, inputs, variables, dtype, depth + 1) for _ in range(2))
        if choice < 0.4:
            mask = w.op("less", a, b, dtype=bool_)
            inner = Written(base=len(w) + w.base)
            v = self.value(inner, inputs, variables, dtype, depth + 2)
            return w.put(Masked(mask, inner.body(), v, b, dtype))
        if choice < 0.5:
            return w.op("where", w.op("less", a, b, dtype=bool_), b, a, dtype=dtype)
        return w.op(self.random.choice(BINARY[dtype]), a, b, dtype=dtype)

    def check(self, w, inputs, variables):
        """Gathers along one axis through a computed index, sometimes out of range."""
        axis = self.random.choice(sorted(variables))
        symbol = Symbol(f"t{len(w)}", 0, self.dims[axis] - 1)
        wild = (
            w.index(variables[axis] * 2 - self.dims[axis])
            if self.random.random() < 0.5
            else w.index(-1 - variables[axis])
        )
        key = 0
        for a in self.random.sample(sorted(variables), len(variables)):
            key = key * self.dims[a] + variables[a]
        w.put(Indirect(wild, self.dims[axis], symbol, 0, key))
        self.uses_check = True
        target = inputs[0]
        return w.load(target.name, self.index(target, variables, (axis, symbol)), target.dtype), target.dtype

    def output(self, dtype, axes):
        shape = tuple(self.dims[a] for a in axes)
        made = Buffer(f"o{len(self.outputs)}", dtype, Layout(shape, strides_of(shape)), "output", len(self.outputs))
        self.outputs.append(made)
        return made

    def accumulate(self, w, value, dtype):
        kind = self.random.choice(KINDS[dtype])
        searched = kind.startswith("arg")
        a = Accumulator(f"a{len(self.accumulators)}", kind, int64 if searched else dtype, dtype)
        self.accumulators.append(a)
        position = None
        if searched:
            flat = 0
            for axis in self.inner:
                flat = flat * self.dims[axis] + self.variables[axis]
            position = w.index(flat)
        w.put(Reduce(a.name, value, position))

    def program(self):
        random = self.random
        inputs = [self.input(k) for k in range(2)]
        outer = {a: loop(f"i{a}", self.dims[a]) for a in self.outer}
        inner = {a: loop(f"j{a}", self.dims[a]) for a in self.inner}
        self.variables = {a: x.variable for a, x in (outer | inner).items()}
        points = {a: x.variable for a, x in outer.items()}
        first, last = Written(), Written()
        for _ in range(random.randint(1, 3)):
            dtype = random.choice(self.dtypes)
            value = self.value(first, inputs, self.variables, dtype)
            if self.variables and len(self.variables) == 3 and random.random() < 0.2:
                value, dtype = self.check(first, inputs, self.variables)
            if self.inner and random.random() < 0.6:
                self.accumulate(first, value, dtype)
                continue
            if self.inner and random.random() < 0.3 and dtype is int64:
                a = Accumulator(f"a{len(self.accumulators)}", "sum", dtype, dtype)
                self.accumulators.append(a)
                value = first.put(Running(a.name, value, dtype))
            target = self.output(dtype, self.axes)
            flat = sum((v * s for v, s in zip(self.variables.values(), target.layout.strides, strict=True)), 0)
            first.store(target.name, flat, value)
        for a in self.accumulators:
            target = self.output(a.dtype, self.outer)
            flat = sum((v * s for v, s in zip(points.values(), target.layout.strides, strict=True)), 0)
            last.store(target.name, flat, last.put(Accumulated(a.name, a.dtype)))
        stages = [Stage(tuple(inner.values()), first.body())]
        if last:
            stages.append(Stage((), last.body()))
        kernel = Kernel("k", tuple(outer.values()), tuple(stages), tuple(self.accumulators))
        symbols = tuple(d for d in self.dims if isinstance(d, Symbol))
        bindings = tuple((d, 0, "size", self.dims.index(d)) for d in symbols)
        sites = (Site("index", "take", 0),) if self.uses_check else ()
        return program([kernel], [*inputs, *self.outputs], symbols, bindings, sites)


def arrays(p, random, shape):
    rng = np.random.default_rng(random.randint(0, 1 << 30))
    made = []
    for b in p.buffers[:2]:
        x = rng.integers(0, 50, shape).astype(b.dtype.numpy)
        if b.dtype is float64:
            x = np.where(rng.random(shape) < 0.05, np.nan, x / 8)
        made.append(x)  # C order whatever the buffer says: the same places in another arrangement
    return made


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_native_code_agrees_with_the_interpreter(random):
    maker = Maker(random)
    p = maker.program()
    verify(p)
    assert parse(print_program(p)) == p
    native = Native(p, split=[random.random() for _ in range(random.randint(0, 4))], always_split=True)
    for shape in ((0, 2, 3), (1, 1, 1), tuple(random.randint(1, 9) for _ in range(3)), (3, 70, 2), (2, 3, 70)):
        shape = tuple(d if isinstance(d, int) else n for d, n in zip(maker.dims, shape, strict=True))
        if int(product(shape)) == 0 and any(a.kind.startswith("arg") for a in p.steps[0].accumulators):
            continue
        given_arrays = arrays(p, random, shape)
        try:
            expected = evaluate(p, given_arrays)
        except Failure as failure:
            with pytest.raises(Failed) as caught:
                native(*given_arrays)
            assert (caught.value.key, caught.value.payload) == (failure.key, failure.payload)
            continue
        for got, want in zip(native(*given_arrays), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12 if got.dtype.kind == "f" else 0, err_msg=print_program(p))
