"""Generalised ufuncs of users: a core function and its signature become an op.

What goes in: a signature in NumPy's grammar and a function of arrays that have the core dims alone. What comes out: a
callable with loop dims in front of the core dims, broadcast between the operands, and a ufunc's keyword arguments.

What holds: the loop over the loop dims is one level of batching for each of them, by the rule of
`transforms.batching`; an operand that lacks a loop dim, or has 1 there, takes no part in that level, so nothing is
broadcast in memory. An optional dim that the operands leave out is 1 for the core function and absent from the
results, and a dim `n|1` is given its full size. A core function gets operands that it may not write to.

Source: NEP 20, https://numpy.org/neps/nep-0020-gufunc-signature-enhancement.html, and numpy.ufunc's documentation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from typing import Any

import numpy as np

from broadloom.dtypes import DType
from broadloom.errors import OptionsError, ShapeError, TransformError
from broadloom.frontend import shapes
from broadloom.frontend.operands import as_array, cast, known_dtype
from broadloom.frontend.ufuncs import as_out, deliver_broadcast
from broadloom.frontend.unsupported import NumpyRaises, Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.signature import Dim, Expression, Shape, Signature, equal
from broadloom.records import dataclass
from broadloom.symbolic import Size
from broadloom.tensor.dispatch import Tensor, made, traced
from broadloom.tensor.stack import Interpreter, running
from broadloom.tensor.users import user_location
from broadloom.transforms.interpreter import BatchInterpreter, Ground, bottom, unmasked
from broadloom.transforms.level import Level

Core = Callable[[Sequence[Level], list[ArrayHandle]], list[ArrayHandle]]
Axes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class GufuncRecord:
    """What is known of a user's op: as `ops.record.Op` says of a built-in one.

    `derivative` is None: it comes from tracing the core function.
    """

    name: str
    doc: str
    signature: Signature
    core: Callable[..., Any]
    derivative: Callable[..., Any] | None = None

    @property
    def nin(self) -> int:
        """How many operands there are."""
        return len(self.signature.inputs)

    @property
    def nout(self) -> int:
        """How many results there are."""
        return len(self.signature.outputs)


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keyword arguments of a call, checked: core axes of each operand and result (None: the last ones)."""

    inputs: Axes | None = None
    outputs: Axes | None = None
    keepdims: bool = False
    out: tuple[Any, ...] = ()
    dtype: DType | None = None
    casting: str = "same_kind"


@dataclass(frozen=True, slots=True)
class Bound:
    """The shapes of a call: the loop shape, the size of each core dim, and the optional dims that are left out."""

    loop: Shape
    dims: Mapping[str, Size]
    missing: frozenset[str | Size] = field(default_factory=frozenset)


# ---- a call on handles -----------------------------------------------------------------------------------------------


def run(g: GufuncRecord, r: Recorder, operands: Sequence[Any], told: Keywords, core: Core) -> list[ArrayHandle]:
    """The results, recorded by `r`. `core` runs the core function over levels, on handles of the innermost one."""
    given = [as_array(r, x) for x in operands]
    if told.dtype is not None:
        given = [_promoted(r, x, told.dtype, told.casting) for x in given]
    specs = g.signature.operands(len(given))
    if told.inputs is not None:
        given = [_axes_last(r, x, axes) for x, axes in zip(given, told.inputs, strict=True)]
    loop, dims = g.signature.bind([x.shape for x in given], r.builder.decide, g.name)
    missing = _missing(specs, given, loop)
    inner = [_completed(r, x, spec, dims, missing) for x, spec in zip(given, specs, strict=True)]
    levels, handles = _descend(r, inner, [len(spec) for spec in specs], loop)
    if not levels:  # as examples are: the core function neither writes to its operands nor gives them away
        handles = [replace(h, sealed=True) for h in handles]
    results = core(levels, handles)
    sizes = {**dims, **{str(name): 1 for name in missing}}
    checked = [_checked(g, r, levels, h, k, sizes) for k, h in enumerate(_counted(g, results))]
    whole = [_ascend(levels, h, k) for k, h in enumerate(checked)] if levels else [r.copy(h, "C") for h in checked]
    whole = [_without(r, h, g.signature.outputs[k], missing) for k, h in enumerate(whole)]
    return _delivered(g, r, whole, told)


def _promoted(r: Recorder, x: ArrayHandle, dtype: DType, casting: str) -> ArrayHandle:
    if not np.can_cast(x.dtype.numpy, dtype.numpy, casting=casting):  # type: ignore[arg-type]
        raise TransformError(f"cannot cast an operand from {x.dtype} to {dtype} by rule {casting!r}")
    return cast(r, x, dtype)


def _axes_last(r: Recorder, x: ArrayHandle, axes: tuple[int, ...]) -> ArrayHandle:
    at = [shapes.axis_from_end(a, x.ndim) + x.ndim for a in axes]
    if len(set(at)) < len(at):
        raise ShapeError("axes names an axis twice", got=axes)
    return shapes.permute(r, x, [*(a for a in range(x.ndim) if a not in at), *at])


def _missing(specs: Sequence[tuple[Dim, ...]], given: Sequence[ArrayHandle], loop: Shape) -> frozenset[str | Size]:
    """The optional dims that some operand is too short to have."""
    missing: set[str | Size] = set()
    for spec, x in zip(specs, given, strict=True):
        lack = len(spec) - x.ndim - sum(d.optional and not d.broadcastable and d.size in missing for d in spec)
        for d in spec:
            if lack > 0 and d.optional and not d.broadcastable and d.size not in missing:
                missing.add(d.size)
                lack -= 1
    return frozenset(missing)


def _completed(
    r: Recorder, x: ArrayHandle, spec: tuple[Dim, ...], dims: Mapping[str, Size], missing: frozenset[str | Size]
) -> ArrayHandle:
    """The operand with all core dims of its signature: 1 where one is left out, the full size where it may be 1."""
    present = [d for d in spec if d.size not in missing or not d.optional]
    core = x.shape[max(0, x.ndim - len(present)) :]
    absent = len(present) - len(core)  # dims `n?|1` that the operand is too short for
    loop = x.shape[: x.ndim - len(core)]
    sizes = iter((*(1,) * absent, *core))
    have = [1 if d not in present else next(sizes) for d in spec]
    want = [_full(d, n, dims) if d in present else 1 for d, n in zip(spec, have, strict=True)]
    if len(have) != len(core):
        x = r.view("reshape", x, core=x.ndim, shape=(*loop, *have))
    return shapes.expand(r, x, (*loop, *want)) if tuple(have) != tuple(want) else x


def _full(d: Dim, size: Size, dims: Mapping[str, Size]) -> Size:
    """The size of a core dim that an operand may have as 1."""
    return dims.get(d.size, size) if isinstance(d.size, str) else d.size


def _descend(
    r: Recorder, operands: list[ArrayHandle], cores: list[int], loop: Shape
) -> tuple[list[Level], list[ArrayHandle]]:
    """One level for each loop dim, the outermost first, and the operands of the innermost."""
    levels: list[Level] = []
    for depth, size in enumerate(loop):
        below = levels[-1].recorder if levels else r
        level = Level(below, size)
        left = len(loop) - depth
        operands = [_entered(level, x, x.ndim - core >= left, size) for x, core in zip(operands, cores, strict=True)]
        levels.append(level)
    return levels, operands


def _entered(level: Level, x: ArrayHandle, has: bool, size: Size) -> ArrayHandle:
    """An operand at a level: batched if its loop dim is of the loop's size, alike for all if it is 1 or absent."""
    if not has:
        return level.lift(x, _operand)
    if equal(x.shape[0], size, level.below.builder.decide):
        return level.argument(x, 0, _operand, writeable=False)
    return level.lift(shapes.drop_axes(level.below, x, [0]), _operand)


def _operand() -> str:
    return "an operand"


def _ascend(levels: Sequence[Level], x: ArrayHandle, number: int) -> ArrayHandle:
    for level in reversed(levels):
        x = level.result(x, 0, f"result {number}")
    return x


def _counted(g: GufuncRecord, results: list[ArrayHandle]) -> list[ArrayHandle]:
    if len(results) != g.nout:
        raise TransformError(
            f"{g.name}: the core function returns another number of results than its signature says",
            got=len(results),
            allowed=f"{g.nout}, by {g.signature}",
            remedy="correct the signature or the function",
        )
    return results


def _checked(
    g: GufuncRecord, r: Recorder, levels: Sequence[Level], x: ArrayHandle, number: int, dims: Mapping[str, Size]
) -> ArrayHandle:
    """The result, whose shape must be what the signature says."""
    out = g.signature.outputs[number]
    free = any(isinstance(e, Dim) and e.given for e in out)
    wanted = None if free else g.signature.output_shapes((), dims)[number]
    decide = levels[-1].builder.decide if levels else r.builder.decide
    fits = wanted is None or (
        len(wanted) == x.ndim and all(equal(a, b, decide) is True for a, b in zip(x.shape, wanted, strict=True))
    )
    if not fits or x.ndim != len(out):
        raise TransformError(
            f"{g.name}: result {number} of the core function has another shape than its signature says",
            got=f"shape {tuple(x.shape)}",
            allowed=f"({', '.join(map(str, out))}) with {', '.join(f'{n} = {s}' for n, s in dims.items())}",
            remedy="correct the signature or the function",
        )
    return x


def _without(r: Recorder, x: ArrayHandle, out: Sequence[Expression], missing: frozenset[str | Size]) -> ArrayHandle:
    """The result without the optional dims that the operands left out."""
    gone = [k - len(out) for k, e in enumerate(out) if isinstance(e, Dim) and e.optional and e.size in missing]
    return shapes.drop_axes(r, x, [a + x.ndim for a in gone]) if gone else x


def _delivered(g: GufuncRecord, r: Recorder, results: list[ArrayHandle], told: Keywords) -> list[ArrayHandle]:
    delivered = []
    for number, x in enumerate(results):
        core = len(g.signature.outputs[number])
        if told.keepdims:
            for axis in sorted(a % (x.ndim + len(told.inputs[0])) for a in told.inputs[0]) if told.inputs else ():
                x = shapes.insert_axes(r, x, axis)
            if not told.inputs:
                x = shapes.insert_axes(r, x, x.ndim, len(g.signature.inputs[0]))
        elif told.outputs is not None and core:
            x = _axes_placed(r, x, told.outputs[number])
        out = told.out[number] if told.out else None
        target = as_out(out)
        if target is not None and target.ndim < x.ndim:
            raise plain_numpy_raises(f"{g.name}: the output has {target.ndim} axes and the result {x.ndim}")
        if told.dtype is not None and target is None:
            x = cast(r, x, told.dtype)
        delivered.append(x if target is None else deliver_broadcast(r, x, target, None, told.casting))
    return delivered


def _axes_placed(r: Recorder, x: ArrayHandle, axes: tuple[int, ...]) -> ArrayHandle:
    """The result with its core dims, which are last, at `axes`."""
    at = [shapes.axis_from_end(a, x.ndim) + x.ndim for a in axes]
    rest = iter(range(x.ndim - len(at)))
    order = [x.ndim - len(at) + at.index(k) if k in at else next(rest) for k in range(x.ndim)]
    return shapes.permute(r, x, order)


# ---- keyword arguments -----------------------------------------------------------------------------------------------


def keywords(
    g: GufuncRecord,
    axes: Any = None,
    axis: Any = None,
    keepdims: Any = False,
    out: Any = None,
    dtype: Any = None,
    casting: Any = "same_kind",
    **unknown: Any,
) -> Keywords:
    """The checked keyword arguments. Raises `OptionsError`, or TypeError as NumPy does."""
    if unknown:
        allowed = "axes, axis, keepdims, out, dtype, casting"
        raise TypeError(f"{g.name}: unknown keyword argument; got {', '.join(unknown)}; allowed: {allowed}")
    ranks = [len(spec) for spec in g.signature.inputs]
    if axis is not None:
        if axes is not None:
            raise TypeError(f"{g.name}: give axis or axes, not both")
        if set(ranks) - {0, 1} or any(len(o) > 1 for o in g.signature.outputs):
            raise TypeError(f"{g.name}: axis is for signatures with one core dim; use axes")
        axes = [(axis,) * rank for rank in ranks] + [(axis,) * len(o) for o in g.signature.outputs]
    if keepdims and (len(set(ranks)) > 1 or any(g.signature.outputs)):
        raise TypeError(f"{g.name}: keepdims is for signatures whose results have no core dims")
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    if outs and len(outs) != g.nout:
        raise ValueError(f"{g.name}: out must have {g.nout} entries; got {len(outs)}")
    inputs, outputs = (None, None) if axes is None else _axes(g, axes, ranks, bool(keepdims))
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise ValueError(f"casting; got {casting!r}; allowed: no, equiv, safe, same_kind, unsafe")
    return Keywords(inputs, outputs, bool(keepdims), outs, None if dtype is None else known_dtype(dtype), casting)


def _axes(g: GufuncRecord, axes: Any, ranks: list[int], keepdims: bool) -> tuple[Axes, Axes | None]:
    if not isinstance(axes, list):
        raise TypeError(f"{g.name}: axes must be a list; got {type(axes).__name__}")
    entries = [(e,) if isinstance(e, int) else tuple(e) for e in axes]
    cores = [*ranks, *(len(o) for o in g.signature.outputs)]
    plain = not any(g.signature.outputs)
    if len(entries) != len(cores) and not (plain and len(entries) == len(ranks)):
        raise ValueError(f"{g.name}: axes must have an entry for each operand and result; got {len(entries)}")
    for entry, core in zip(entries, cores, strict=False):
        if len(entry) != core and not (keepdims and core == 0):
            raise ValueError(f"{g.name}: an entry of axes has {len(entry)} axes, the signature {core} core dims")
    outputs = tuple(entries[len(ranks) :])
    return tuple(entries[: len(ranks)]), outputs or None


# ---- the user's object -----------------------------------------------------------------------------------------------

Evaluate = Callable[["Gufunc", tuple[Any, ...], dict[str, Any]], Any]


class Gufunc:
    """A user's op; see `gufunc`. `evaluate(gufunc, args, kwargs)` is how a call of it runs."""

    def __init__(self, record: GufuncRecord, evaluate: Evaluate) -> None:
        functools.update_wrapper(self, record.core)
        self.record, self.function, self.evaluate = record, record.core, evaluate
        self.captures: Any = None  # what `evaluate` knows of earlier calls

    @property
    def signature(self) -> str:
        """The core signature."""
        return str(self.record.signature)

    @property
    def nin(self) -> int:
        """How many operands there are."""
        return self.record.nin

    @property
    def nout(self) -> int:
        """How many results there are."""
        return self.record.nout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) > self.nin:  # outputs by position, as of a ufunc
            if "out" in kwargs or len(args) > self.nin + self.nout:
                raise TypeError(f"{self.record.name} takes {self.nin} operands and {self.nout} outputs")
            kwargs = {**kwargs, "out": (*args[self.nin :], *[None] * (self.nin + self.nout - len(args)))}
            args = args[: self.nin]
        if len(args) != self.nin:
            raise TypeError(f"{self.record.name} takes {self.nin} operands; got {len(args)}")
        return self.evaluate(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<gufunc {self.record.name} {self.signature}>"


def record_of(signature: str, core: Callable[..., Any]) -> GufuncRecord:
    """The record of a core function. Raises `OptionsError` for what is no function, `ParseError` for the signature."""
    if not callable(core):
        raise OptionsError("bl.gufunc decorates a function", got=type(core).__name__)
    parsed = Signature.parse(signature)
    if parsed.variadic:
        raise OptionsError("a gufunc has a fixed number of operands", got=signature, remedy="leave out '...'")
    name = getattr(core, "__name__", "gufunc")
    return GufuncRecord(name, getattr(core, "__doc__", None) or "", parsed, core)


def gufunc_of(signature: str, core: Callable[..., Any], evaluate: Evaluate | None = None) -> Gufunc:
    """A user's op whose calls run by `evaluate`, by the dispatch stack if it is not given."""
    return Gufunc(record_of(signature, core), evaluate or by_dispatch)


def by_dispatch(g: Gufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call by the dispatch stack: the core function runs in Python, on tensors."""
    below = bottom()
    told = keywords(g.record, **kwargs)
    arrays = [x if isinstance(x, (Tensor, np.ndarray)) else np.asarray(x) for x in args]
    outs = tuple(None if o is None else below.lift(o) for o in told.out)
    told = Keywords(told.inputs, told.outputs, told.keepdims, outs, told.dtype, told.casting)

    def core(levels: Sequence[Level], handles: list[ArrayHandle]) -> list[ArrayHandle]:
        inside: Interpreter = below
        with ExitStack() as stack:
            for level in levels:
                inside = BatchInterpreter(inside, level)
                stack.enter_context(running(inside))
            stack.enter_context(unmasked())
            returned = g.function(*(_tensor(inside, h) for h in handles))
            parts = returned if isinstance(returned, tuple) else (returned,)
            return [inside.lift(p if isinstance(p, (Tensor, np.ndarray)) else np.asarray(p)) for p in parts]

    try:
        results = run(g.record, below.recorder, [below.lift(x) for x in arrays], told, core)
    except NumpyRaises as error:
        raise ShapeError(error.what, remedy=error.remedy, location=user_location()) from error
    except Unsupported as error:
        raise TransformError(error.what, remedy=error.remedy, location=user_location()) from error
    tensors = any(isinstance(x, Tensor) for x in arrays)
    found = tuple(_outside(below, h, given, tensors) for h, given in _with_outs(results, kwargs.get("out")))
    if isinstance(below, Ground):
        below.write_back()
    return found[0] if len(found) == 1 else found


def _with_outs(results: list[ArrayHandle], out: Any) -> list[tuple[ArrayHandle, Any]]:
    outs = out if isinstance(out, tuple) else (out,) * len(results)
    return list(zip(results, outs, strict=True))


def _tensor(inside: Interpreter, h: ArrayHandle) -> Tensor:
    """An operand as the core function sees it."""
    if isinstance(inside, Ground):
        array = inside.concrete(inside.recorder.read(h)).view()
        array.flags.writeable = False
        return made(array)  # type: ignore[no-any-return]
    return traced(inside, h)  # type: ignore[no-any-return]


def _outside(below: Interpreter, h: ArrayHandle, given: Any, tensors: bool) -> Any:
    """A result as the caller gets it: the given output, a tensor, or an array where no operand was a tensor."""
    if given is not None:
        return given
    result = below.tensor(h)
    return result if tensors or not isinstance(below, Ground) else result.numpy()[()]
