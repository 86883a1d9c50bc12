"""The storage model's things: storages, and array handles that see them through chains of view calls.

What goes in: facts of an array - its type, its memory order and where that comes from, the array at hand where strides
are free. What comes out: answers about it, as NumPy's flags and `reshape` give them; one that depends on free strides
pins them. What holds: strides are representative byte strides (see `graph.strides`) and never become part of the graph.
`graph.recorder` records programs over handles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from broadloom.dtypes import DType
from broadloom.errors import DTypeError, ShapeError
from broadloom.graph import order as orders
from broadloom.graph import strides as geometry
from broadloom.graph.ir import TensorType, ValueId
from broadloom.graph.order import Layout
from broadloom.graph.origins import Origin
from broadloom.graph.strides import Operand, Strides, representatives
from broadloom.records import dataclass
from broadloom.symbolic import Expr, ShapeEnv, Size, eq

if TYPE_CHECKING:
    from broadloom.graph.recorder import Recorder


@dataclass(frozen=True, slots=True)
class ViewCall:
    """One step of a view chain: a view op of the table and its attributes, sorted by name. A gather at 0-d `indices`
    is a view as well, whose place in memory is known at run time alone; no result can be one."""

    op: str
    attrs: tuple[tuple[str, Any], ...]
    indices: tuple[ValueId, ...] = ()

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.attrs)


Chain = tuple[ViewCall, ...]
SCALAR = Layout((), ())


@dataclass(eq=False, slots=True)
class Storage:
    """A piece of memory and its current value. `input` is the number of the input it came with, if it did.

    `free`: an input's strides that are known at run time alone. `pinned`: a step depended on them, so the recording
    holds for the sample's strides only. `writeable`: whether the array that was the input could be written to.
    """

    type: TensorType
    value: ValueId
    layout: Layout
    origin: Origin  # of the layout
    input: int | None = None
    free: bool = False
    pinned: bool = False
    writeable: bool = True
    sample: Strides | None = None  # byte strides of the array at hand, where they are free
    version: int = 0
    reads: dict[Chain, ValueId] = field(default_factory=dict)  # of the current version
    env: ShapeEnv | None = None
    owner: Recorder | None = None  # the recorder whose builder made the values
    captured: Callable[[], str] | None = (
        None  # tells its name, where it belongs to the program around a transformed function
    )

    def sizes_at_hand(self, shape: Sequence[Size]) -> tuple[int, ...]:
        """Sizes of the arrays that the recording is made with."""
        return representatives(shape) if self.env is None else tuple(map(self.env.hint, shape))

    @property
    def pinned_layout(self) -> Layout | None:
        """That of the array at hand, if the recording holds for its strides and sizes only."""
        if not self.pinned or self.sample is None:
            return None
        return orders.virtual_layout(self.sizes_at_hand(self.type.shape), self.sample, self.type.dtype.itemsize)

    def pin(self) -> None:
        """From now on the recording holds for the strides and sizes at hand only."""
        self.pinned = True
        for n in self.type.shape:
            if self.env is not None and isinstance(n, Expr):
                self.env.decide(eq(n, self.env.hint(n)), None)


@dataclass(eq=False, slots=True)
class ArrayHandle:
    """An array of the program: a storage seen through views. Two handles are equal only if they are one object.

    `numpy_scalar`: NumPy would give a scalar here, not a 0-d array. `strides`: representative byte strides. `sealed`:
    read-only whatever the storage is, as views are that repeat elements.
    """

    storage: Storage
    views: Chain
    type: TensorType
    strides: Strides
    numpy_scalar: bool = False
    sealed: bool = False
    sample: Strides | None = None  # byte strides of the array at hand, where those of the storage are free
    tensor: bool = False  # in the program it is a tensor of this package, not an array of NumPy
    packed: DType | None = None  # its elements are integers of so many bits, here in the 8-bit dtype that is `wide`

    def __bool__(self) -> bool:
        raise DTypeError("an array stands where a bool has to be known", got=f"{self.dtype}", remedy="pass a bool")

    @property
    def writeable(self) -> bool:
        return self.storage.writeable and not self.sealed

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.type.shape

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def is_c_contiguous(self) -> bool:
        return self._contiguous(fortran=False)

    @property
    def is_f_contiguous(self) -> bool:
        return self._contiguous(fortran=True)

    @property
    def is_fortran(self) -> bool:
        """What `numpy.isfortran` says."""
        return self.is_f_contiguous and not self.is_c_contiguous

    def _contiguous(self, *, fortran: bool) -> bool:
        width = self.dtype.itemsize
        if geometry.is_contiguous(representatives(self.shape), self.strides, width, fortran=fortran):
            return True
        whole = self.shape == self.storage.type.shape and self.strides == self.storage.layout.strides
        if not self.storage.free or whole:
            return False  # an input whose strides are free is contiguous in neither order
        x = self.sampled("the contiguity of a view")
        return geometry.is_contiguous(x.shape, x.strides, width, fortran=fortran)

    def reshape_is_view(self, shape: Sequence[Size]) -> bool:
        """Whether NumPy reshapes to `shape` without a copy."""
        if geometry.reshape_strides(self.operand, representatives(shape)) is not None:
            return True
        if not self.storage.free:
            return False
        x = self.sampled("a reshape")
        return geometry.reshape_strides(x, self.storage.sizes_at_hand(shape)) is not None

    def sampled(self, what: str) -> Operand:
        """The array at hand, for a question that free strides leave open: pins them, and its sizes.

        Raises `ShapeError` if nothing is known of the array at hand.
        """
        if self.sample is None:
            raise ShapeError(
                f"{what} depends on the strides of an array of free strides",
                remedy="pass a contiguous array, or copy it first",
            )
        self.storage.pin()
        return Operand(self.storage.sizes_at_hand(self.shape), self.sample, self.dtype.itemsize)

    @property
    def operand(self) -> Operand:
        return Operand(representatives(self.shape), self.strides, self.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class WeakScalar:
    """A Python number known only at run time: weak in promotion (NEP 50). `kind`: int, float or complex."""

    handle: ArrayHandle
    kind: Literal["i", "f", "c"]

    def __bool__(self) -> bool:
        return bool(self.handle)
