"""Random NumPy functions that store into what they made, as source text: joins, copies, views and sorted or summed
arrays whose parts are written, and read again afterwards.

A function is run at several sizes of its arguments while it is made: a line that NumPy refuses at one of them is left
out. All numbers are whole and small, and no zero is negative, so that sums and products have the same bits in
any order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.levels.comparing import clones

DTYPES = ("int64", "int32", "int16", "uint8", "int8", "float64", "float32", "float16", "bool", "complex64")
CASTS = ("np.int64", "np.int32", "np.int16", "np.float64", "np.float32", "np.float16", "np.int8", "np.complex128")
LARGEST = 1024  # of a number: whole ones are exact up to here in float16
MOST = 4000  # elements of an array

# what is stored before others read it
STORED = (
    "np.sort({0}, axis=-1)",
    "np.cumsum({0}, axis=0)",
    "np.cumsum({0}, axis=-1)",
    "np.floor(np.exp(np.clip({0}, -8, 8) * np.float64(0.25)) * 4)",
    "np.take({0}, [0, -1, 0], axis=0)",
    "{0}[::-1].copy()",
    "{0}.copy()",
    "np.sort({0}, axis=0)",
    "np.argsort({0}, axis=-1, kind='stable')",
    "{0} @ {1}",
    "np.where({0} > 2, {0}, {1})",
    "{0}[i0]",
    "{0}.copy(order='F')",
)
JOINS = (
    "np.concatenate([{0}, {1}])",
    "np.concatenate([{0}, {1}], axis=-1)",
    "np.concatenate([{0}, {1}, {0}])",
    "np.concatenate([{0}[1:], {1}, {0}[:1]])",
    "np.concatenate([{0}, {1} + 1], axis=-1)",
    "np.concatenate([{0}.T, {1}.T], axis=-1)",
    "np.concatenate([np.concatenate([{0}, {1}]), {1}])",
    "np.concatenate([{0}, {0}.astype({dtype})])",
    "np.concatenate([{0}, {1}], axis=None)",
    "np.stack([{0}, {1}])",
    "np.stack([{0}, {1}], axis=-1)",
    "np.stack([{0}, {1}, {0} * 2], axis=1)",
    "np.hstack([{0}, {1}])",
    "np.vstack([{0}, {1}])",
    "np.append({0}, {1})",
    "np.pad({0}, 1)",
    "np.pad({0}, (0, 2))",
    "np.pad({0}, (2, 1), constant_values=3)",
    "np.pad({0}, 1, mode='edge')",
    "np.pad({0}, 1, mode='wrap')",
    "np.roll({0}, 1, axis=0)",
    "np.roll({0}, -1)",
    "np.tile({0}, 2)",
    "np.repeat({0}, 2, axis=0)",
    "np.array([{0}, {1}])",
)
VIEWS = (
    "{0}[{key}]",
    "{0}[{key}]",
    "{0}.T",
    "{0}[None]",
    "{0}.reshape(-1)",
    "{0}.ravel()",
    "{0}.swapaxes(0, -1)",
    "{0}.reshape(2, -1)",
    "np.moveaxis({0}, 0, -1)",
    "np.squeeze({0})",
    "np.diagonal({0})",
    "np.broadcast_to({0}, (2, *{0}.shape))",
    "{0}.real",
    "{0}.astype({dtype}, copy=False)",
    "np.asarray({0})",
    "np.ascontiguousarray({0})",
)
VALUES = (
    "{0} + {1}",
    "{0} * 2",
    "3 - {0}",
    "{0} - {1}",
    "np.maximum({0}, {1})",
    "np.abs({0})",
    "{0} > {1}",
    "{0}.astype({dtype})",
    "{0} + 1",
    "np.where({0} > 1, {1}, 0)",
)
FOLDS = (
    "{0}.sum(axis=0)",
    "{0}.sum(axis=-1, keepdims=True)",
    "{0}.max(axis=-1)",
    "{0}.sum()",
    "{0}.min(axis=0)",
    "{0}.argmax(axis=-1)",
    "{0}.any(axis=0)",
)
WRITES = (
    "{0}[{key}] = {number}",
    "{0}[{key}] = {number}",
    "{0}[{key}] = {1}[{other}]",
    "{0}[{key}] = {1}",
    "{0}[{key}] += {1}[{other}]",
    "{0}[{key}] += {number}",
    "{0}[{key}] -= {1}",
    "{0}[{0} > 2] = {number}",
    "{0}[{0} > 2] += {number}",
    "{0}[{1} > 2] = {number}",
    "{0}[i0] = {number}",
    "{0}[i0] += {number}",
    "{0}[i0] = {1}[i0]",
    "{0}[i0] += {1}[i0]",
    "{0}[..., i0] = {number}",
    "{0}[[0, -1]] = {1}[[-1, 0]]",
    "{0}[np.array([1, 0])] *= 2",
    "np.add.at({0}, i0, {number})",
    "np.add.at({0}, [0, -1, 0], {number})",
    "np.add.at({0}, i0, {1}[i0])",
    "np.subtract.at({0}, i0, {number})",
    "{0}[...] = {1}",
    "{0}.T[...] = {1}",
    "{0}.reshape(-1)[{key}] = {number}",
    "np.copyto({0}, {1})",
    "np.copyto({0}, {1}, where={0} > 2)",
    "np.add({0}, {1}, out={0})",
    "np.subtract({0}, 1, out={1})",
    "np.cumsum({0}, axis=0, out={1})",
    "np.concatenate([{1}[:1], {1}[1:]], out={0})",
    "np.putmask({0}, {0} > 2, {number})",
    "{0}.fill({number})",
    "{0}.sort(axis=-1)",
    "{0}[:] = {0}[::-1]",
    "{0}[1:] = {0}[:-1]",
    "{0}[0], {0}[-1] = {0}[-1], {0}[0]",
    "{0}[0] = {0}[-1] + {number}",
    "np.fill_diagonal({0}, {number})",
    "{0}[{key}] = np.sort({1}[{key}])",
    "{0}[{key}] = np.concatenate([{1}[1:], {1}[:1]])[{key}]",
)
READS = (
    "np.pad({0}, 1)",
    "{0} * 2",
    "{0}[::-1] + 1",
    "{0}.sum(axis=0)",
    "np.concatenate([{0}, {0}])",
    "{0}.copy()",
    "np.cumsum({0}, axis=0)",
)
KEYS = (
    "2:4",
    "1:",
    ":-1",
    "::2",
    "::-1",
    "-2:",
    "1:-1",
    "3:",
    "0",
    "-1",
    "..., 1:",
    "..., 0",
    "..., ::-2",
    ":, 1:3",
    ":, -1",
    "1:3, ::2",
    "1::2",
    "x0.shape[0] // 2:",
    ": x0.shape[0] // 2",
    ":",
    "None",
    "..., -1:",
)
KINDS = (STORED, STORED, JOINS, JOINS, JOINS, VIEWS, VIEWS, VALUES, FOLDS, WRITES, WRITES, WRITES, WRITES, WRITES)


@dataclass
class World:
    """The function at one choice of sizes: its arguments as they were, and its names after the lines so far."""

    arguments: list[Any] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)

    def run(self, lines: list[str]) -> None:
        """The names after these lines."""
        parameters = [*(f"x{k}" for k in range(len(self.arguments) - 1)), "i0"]
        self.names = dict(zip(parameters, clones(self.arguments), strict=True))
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        with np.errstate(all="ignore"):
            exec(line, {"np": np}, self.names)


@dataclass
class Updates:
    """A function under construction. `sizes`: those of its axes `n` and `m` in each world."""

    rng: random.Random
    sizes: tuple[tuple[int, int], ...]
    lines: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)  # names of which the function made the memory
    worlds: list[World] = field(default_factory=list)
    forms: set[str] = field(default_factory=set)  # the kinds of lines that it holds

    def __post_init__(self) -> None:
        self.worlds = [World() for _ in self.sizes]
        for _ in range(self.rng.randint(1, 3)):
            self._add_argument()
        picks = [self.rng.choice((0, -1, 0, -1, 1)) for _ in range(self.rng.randint(1, 4))]
        for world in self.worlds:
            world.arguments.append(np.array(picks, np.int64))
            world.run([])

    @property
    def arrays(self) -> list[str]:
        return [n for n, v in self.worlds[0].names.items() if n != "i0" and isinstance(v, np.ndarray)]

    def text(self) -> str:
        """The function; it returns some names, views of one another among them, and some that are read once more."""
        chosen = self.rng.sample(self.arrays, min(len(self.arrays), self.rng.randint(2, 5)))
        chosen += self.rng.sample(self.joined, min(len(self.joined), self.rng.randint(0, 2)))
        parameters = ", ".join([*(f"x{k}" for k in range(len(self.worlds[0].arguments) - 1)), "i0"])
        returned = "".join(f"{r}, " for r in dict.fromkeys(chosen))
        return "\n    ".join([f"def f({parameters}):", *self.lines, f"return ({returned})"]) + "\n"

    def _add_argument(self) -> None:
        """An array of axes n, m or of a few elements, in some layout; or an alias of an earlier one."""
        rng, number = self.rng, len(self.worlds[0].arguments)
        alias = rng.choice(("{}[...]", "{}.T", "{}[::-1]", "{}[1:]")) if number and rng.random() < 0.15 else None
        which = rng.randrange(number) if number else 0
        axes = rng.choice(("n", "n", "n", "nm", "nm", "mn", "n2", "3n", "n1", "nm2", "n"))
        dtype = np.dtype(rng.choice(DTYPES[:2] if rng.random() < 0.3 else DTYPES))
        if rng.random() < 0.4:
            dtype = np.dtype(np.float64)
        order = rng.sample(range(len(axes)), len(axes)) if rng.random() < 0.3 else list(range(len(axes)))
        gaps, backwards, seed = rng.random() < 0.15, rng.random() < 0.15, rng.randrange(1 << 30)
        for (n, m), world in zip(self.sizes, self.worlds, strict=True):
            if alias is not None:
                array = eval(alias.format("x"), {"x": world.arguments[which]})
            else:
                shape = [{"n": n, "m": m}.get(a) if a in "nm" else int(a) for a in axes]
                shape = [shape[k] for k in order]
                shape[-1:] = [2 * shape[-1]] if gaps else shape[-1:]
                low = 0 if dtype.kind in "ub" else -4
                array = np.random.default_rng(seed).integers(low, 6, shape).astype(dtype)
                array = array[..., ::2] if gaps else array
                array = array[::-1] if backwards else array
                array = array.transpose(np.argsort(order))
            world.arguments.append(array)

    def add_read(self) -> None:
        """A line that reads an array which the function made, once more."""
        if self.joined:
            self._try(self.rng.choice(READS).format(self.rng.choice(self.joined)), "read")

    def add_line(self) -> None:
        rng, arrays = self.rng, self.arrays
        recent = arrays[-4:] if rng.random() < 0.6 else arrays
        kind = rng.choice(KINDS)
        first = rng.choice(recent)
        if kind is WRITES and self.joined and rng.random() < 0.7:
            first = rng.choice(self.joined[-3:])
        form = rng.choice(kind)
        dtype = np.result_type(self.worlds[0].names[first])
        alike = [a for a in arrays if self.worlds[0].names[a].dtype == dtype]
        second, third = rng.choice(alike if rng.random() < 0.7 else arrays), rng.choice(arrays)
        line = form.format(
            first,
            second,
            third,
            key=rng.choice(KEYS),
            other=rng.choice(KEYS),
            number=rng.choice((1, 2, 5, 0, 3)),
            dtype=rng.choice(CASTS),
        )
        if kind is WRITES:
            self._try(line, form, written=True)
        else:
            self._try(line, form, made=kind in (STORED, JOINS))

    def _try(self, line: str, form: str, *, made: bool = False, written: bool = False) -> None:
        """Adds the line where NumPy takes it in every world and the numbers stay small."""
        name = f"v{len(self.lines)}"
        text = line if written else f"{name} = {line}"
        try:
            for world in self.worlds:
                world.add(text)
            fits = all(_small(x) for w in self.worlds for x in (w.names.values() if written else [w.names[name]]))
        except (ValueError, TypeError, IndexError, AttributeError):
            fits = False
        if fits:
            self.lines.append(text)
            self.forms.add(form)
            self.joined += [name] if made else []
            return
        for world in self.worlds:  # a part may have been written
            if written:
                world.run(self.lines)
            else:
                world.names.pop(name, None)


def _small(value: Any) -> bool:
    x = np.asarray(value)
    if x.size > MOST:
        return False
    return x.dtype.kind == "b" or not x.size or bool((np.abs(x.astype(np.complex128)) <= LARGEST).all())


def random_sizes(rng: random.Random) -> tuple[tuple[int, int], ...]:
    """Sizes of `n` and `m` to call a function at: some that take no whole vector, some that take several, and perhaps
    none or one."""
    found = [(rng.choice((5, 6, 8)), rng.choice((3, 4, 7)))]
    found += [(rng.choice((7, 9, 17)), rng.choice((2, 5, 8)))]
    found += [(rng.choice((16, 33, 65, 70)), rng.choice((4, 9, 17)))] if rng.random() < 0.7 else []
    found += [(rng.choice((0, 1, 2)), rng.choice((3, 1)))] if rng.random() < 0.3 else []
    found += [(rng.choice((4, 3)), rng.choice((0, 1)))] if rng.random() < 0.15 else []
    return tuple(found)
