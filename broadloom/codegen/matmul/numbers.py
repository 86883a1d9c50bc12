"""The arithmetic of a product: how elements are loaded, multiplied and added.

What goes in: the dtypes of the operands and of the sums. What comes out: vectors of summands. What holds: an element
that has another dtype than the sums is converted when it is loaded; floats are multiplied and added with one rounding
where the target can, integers wrap around. Where an instruction multiplies groups (`fusion.dots`), a summand is a word
that holds one.
"""

from __future__ import annotations

from broadloom.codegen.accumulators import Emit
from broadloom.codegen.lane import has_fma
from broadloom.codegen.llvm import FunctionBuilder, Val, const_float, const_int, i64, like, vector
from broadloom.codegen.memory import first_lanes, masked_load, masked_store
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.types import memory_type, register_type
from broadloom.dtypes import DType
from broadloom.fusion.dots import Dot, Grouping
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Numbers:
    """Sums of `total`, in vectors of as many as a register holds."""

    module: ModuleBuilder
    emit: Emit
    total: DType
    grouping: Grouping | None = None

    @property
    def name(self) -> str:
        """What functions of these sums go by."""
        return str(self.total) if self.grouping is None else f"{self.total}.{self.grouping.key}"

    @property
    def group(self) -> int:
        """Steps of the summation in a summand."""
        return 1 if self.grouping is None else self.grouping.dot.group

    @property
    def lanes(self) -> int:
        return max(1, vector_bits(self.module.features) // self.total.bits)

    @property
    def element(self) -> str:
        return register_type(self.total)[0]

    @property
    def vector(self) -> str:
        return vector(self.element, self.lanes)

    def zero(self, type_: str) -> Val:
        return const_float(type_, 0.0) if self.total.kind == "f" else const_int(type_, 0)

    def load(self, b: FunctionBuilder, dtype: DType, address: Val, lanes: int = 1, mask: Val | None = None) -> Val:
        """Elements side by side in memory as summands; where the mask is false, anything."""
        element = memory_type(dtype)
        if mask is None:
            found = b.load(vector(element, lanes), address, dtype.itemsize)
        else:
            found = masked_load(b, vector(element, lanes), address, dtype.itemsize, mask)
        return self.summand(b, dtype, found)

    def summand(self, b: FunctionBuilder, dtype: DType, value: Val) -> Val:
        """A value of `dtype` as a summand."""
        if dtype is self.total:
            return value
        return self.emit(b, "cast", [(value,)], [dtype], self.total, {"dtype": self.total})[0]

    def store(
        self, b: FunctionBuilder, value: Val, address: Val, mask: Val | None = None, dtype: DType | None = None
    ) -> None:
        """Sums, to where sums are kept; or elements of a dtype."""
        align = (dtype or self.total).itemsize
        if mask is None:
            b.store(value, address, align)
        else:
            masked_store(b, value, address, align, mask)

    def plus(self, b: FunctionBuilder, x: Val, y: Val) -> Val:
        return b.fadd(x, y) if self.total.kind == "f" else b.add(x, y)

    def multiply_add(self, b: FunctionBuilder, x: Val, y: Val, z: Val) -> Val:
        """x * y + z; x is of the left operand, where summands are groups."""
        if self.grouping is not None:
            return self._dot(b, self.grouping.dot, x, y, z)
        if self.total.kind != "f":
            return b.add(b.mul(x, y), z)
        if has_fma(self.module):
            return b.intrinsic("fma", x, y, z)
        return b.fadd(b.fmul(x, y), z)

    def _dot(self, b: FunctionBuilder, dot: Dot, x: Val, y: Val, z: Val) -> Val:
        element = "bfloat" if dot.left.kind == "f" else f"i{dot.left.bits}"
        x, y = (b.bitcast(v, vector(element, self.lanes * dot.group)) for v in (x, y))
        given = [z] if dot.adds else []
        given += (y, x) if dot.swapped else (x, y)
        function = self.module.declare(dot.function, z.type, tuple(v.type for v in given))
        found = b.call(function, *given)
        return found if dot.adds else b.add(z, found)

    def widened(self, b: FunctionBuilder, x: Val) -> tuple[Val, Val]:
        """The two numbers of each group of bfloat16, as float32."""
        words = b.bitcast(x, like(x.type, "i32"))
        low, high = b.shl(words, const_int(words.type, 16)), b.and_(words, const_int(words.type, -1 << 16))
        return b.bitcast(low, x.type), b.bitcast(high, x.type)

    def mask(self, b: FunctionBuilder, count: Val, first: int = 0, lanes: int = 0) -> Val:
        """Which of `lanes` elements, or of those of a vector, are among the first `count`, where their first is number
        `first`."""
        lanes = lanes or self.lanes
        if lanes == 1:
            return b.icmp("slt", i64(first), count)
        return first_lanes(b, b.trunc(count, "i32"), lanes, first)

    def at(self, b: FunctionBuilder, dtype: DType, base: Val, index: Val | int) -> Val:
        """The address of element `index` of an array of `dtype`."""
        if index == 0:
            return base
        return b.gep(memory_type(dtype), base, i64(index) if isinstance(index, int) else index)
