"""Random NumPy functions as source text, for comparing the plain function with the compiled one.

A function takes one to three arrays; its lines make views, values and writes; it returns some of its names. The text
is chosen by running it: a line that NumPy refuses is left out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DTYPES = (
    "int64",
    "int32",
    "uint8",
    "float64",
    "float32",
    "bool",
    "complex128",
    "float16",
)
UNARY = (
    "np.square({0})",
    "-{0}",
    "np.abs({0})",
    "{0} * 2",
    "{0} + 1.5",
    "{0} > 2",
    "~{0}",
    "np.sign({0})",
    "{0} // 2",
    "np.positive({0})",
    "1 - {0}",
    "np.where({0} > 2, {0}, 0)",
    "np.clip({0}, 1, 5)",
    "{0}.astype({dtype})",
)
BINARY = (
    "{0} + {1}",
    "{0} * {1}",
    "np.maximum({0}, {1})",
    "np.where({0} > 1, {0}, {1})",
    "{0} - {1}",
    "{0} == {1}",
)
VIEWS = (
    "{0}.T",
    "{0}[::-1]",
    "{0}[..., ::2]",
    "{0}[1:]",
    "{0}[None]",
    "{0}[..., None]",
    "{0}[0]",
    "{0}[..., -1]",
    "{0}.reshape(-1)",
    "{0}.ravel()",
    "{0}.swapaxes(0, -1)",
    "{0}.real",
    "{0}.view({dtype})",
    "{0}[:, ::-1]",
    "np.diagonal({0})",
    "{0}.reshape({0}.shape[::-1])",
    "np.broadcast_to({0}, (2, *{0}.shape))",
    "{0}[...]",
    "np.squeeze({0})",
    "np.moveaxis({0}, 0, -1)",
    "{0}.imag",
)
FRESH = (
    "{0}.copy()",
    "np.array({0})",
    "np.ascontiguousarray({0})",
    "{0}.flatten()",
    "{0}.sum(axis=0)",
    "{0}.max(axis=-1)",
    "np.concatenate([{0}, {0}])",
    "np.stack([{0}, {0}], axis=-1)",
    "{0}.sum(axis=-1, keepdims=True)",
    "np.roll({0}, 1, axis=0)",
    "{0}.cumsum(axis=0)",
    "np.pad({0}, 1)",
    "{0}[[0, -1]]",
    "{0}[..., [0, 0]]",
    "np.take({0}, [0, 0], axis=-1)",
    "np.tile({0}, 2)",
    "np.repeat({0}, 2, axis=0)",
    "np.zeros_like({0})",
    "{0}.copy(order='F')",
    "{0}.mean(axis=0)",
    "{0}.argmax(axis=0)",
    "np.flip({0}).copy()",
    "np.asfortranarray({0})",
    "np.matmul({0}, {0}.swapaxes(-1, -2))",
    "{0}.sum()",
    "{0}.any(axis=-1)",
)
WRITES = (
    "{0}[...] = {1}",
    "{0}[1:] = 3",
    "{0} += {1}",
    "{0}[::2] += 1",
    "{0}[..., 0] = {1}[..., -1]",
    "{0}[:] = {0}[::-1]",
    "{0}.T[...] = {1}",
    "np.add({0}, 1, out={0})",
    "{0}[{0} > 3] = 0",
    "{0}[[0, 0]] += 1",
    "{0} *= 2",
    "np.multiply({0}, {1}, out={0})",
    "{0}.reshape(-1)[0] = 5",
    "{0}[..., ::-1] = {1}",
    "{0}.real[...] = 2",
    "np.copyto({0}, {1})",
    "{0}.fill(4)",
    "np.negative({0}, out={1})",
    "{0}[0], {0}[-1] = {0}[-1], {0}[0]",
)


class HalfDone(Exception):
    """A line that NumPy refused after it had written a part of its target."""


@dataclass
class Source:
    """A function under construction: `lines` so far, and the values of its names by running them."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    arguments: list[np.ndarray] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)

    def text(self, results: list[str]) -> str:
        parameters = ", ".join(f"x{k}" for k in range(len(self.arguments)))
        returned = "".join(f"{r}, " for r in results)
        return "\n    ".join([f"def f({parameters}):", *self.lines, f"return ({returned})"]) + "\n"

    def add_argument(self) -> None:
        """A new array of some layout, or an alias of an earlier one."""
        rng = self.rng
        if self.arguments and rng.random() < 0.25:
            base = rng.choice(self.arguments)
            array = rng.choice([base, base[...], base.T, *([base[::-1], base[1:]] if base.ndim else [])])
        else:
            shape = [rng.choice((1, 2, 3, 4)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))]
            dtype = np.dtype(rng.choice(DTYPES))
            array = (np.arange(1, 1 + int(np.prod(shape))) % 7).astype(dtype).reshape(shape)
            array = array.transpose(rng.sample(range(len(shape)), len(shape)))
            if array.ndim and rng.random() < 0.3:
                array = np.repeat(array, 2, axis=-1)[..., ::2]
            if array.ndim and rng.random() < 0.2:
                array = array[::-1]
        self.names[f"x{len(self.arguments)}"] = array
        self.arguments.append(array)

    def add_line(self) -> None:
        rng = self.rng
        arrays = [n for n, v in self.names.items() if isinstance(v, np.ndarray | np.generic)]
        recent = arrays[-4:] if rng.random() < 0.5 else arrays
        kind = rng.choice((UNARY, BINARY, VIEWS, VIEWS, FRESH, WRITES, WRITES))
        operands = (rng.choice(recent), rng.choice(arrays))
        line = rng.choice(kind).format(
            *operands,
            dtype=f"np.{rng.choice(DTYPES)}",
        )
        if kind is not WRITES:
            line = f"v{len(self.lines)} = {line}"
        before = {n: v.tobytes() for n, v in self.names.items() if isinstance(v, np.ndarray)}
        try:
            with np.errstate(all="ignore"):
                exec(line, {"np": np}, self.names)
        except (ValueError, TypeError, IndexError, AttributeError):
            if any(self.names[n].tobytes() != data for n, data in before.items()):
                raise HalfDone(line) from None
            return
        if any(np.size(v) > 500 for v in self.names.values()):
            self.names = {n: v for n, v in self.names.items() if np.size(v) <= 500}
        self.lines.append(line)
