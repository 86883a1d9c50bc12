"""The storage model's things: storages, and array handles that see them through chains of view calls.

What goes in: facts of an array - its type, its memory order and where that comes from. What comes out: answers about
it, as NumPy's flags and `reshape` give them; one that depends on strides known at run time alone ends the recording, to
begin again with constants. What holds: strides are representative byte strides (see `graph.strides`) and never become
part of the graph.
`graph.recorder` records programs over handles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from broadloom.dtypes import DType
from broadloom.errors import DTypeError, ShapeError
from broadloom.graph import strides as geometry
from broadloom.graph.ir import TensorType, ValueId
from broadloom.graph.order import Layout
from broadloom.graph.origins import Origin
from broadloom.graph.strides import Operand, Strides, representatives
from broadloom.records import dataclass
from broadloom.symbolic import Size

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

    `strided`: an input that is contiguous in no order. Its strides are constants, as in `layout`, unless they are
    `free`, known at run time alone. `writeable`: whether the array that was the input could be written to.
    """

    type: TensorType
    value: ValueId
    layout: Layout
    origin: Origin  # of the layout
    input: int | None = None
    strided: bool = False
    free: bool = False
    fix: Callable[[], NoReturn] | None = None  # begins the recording anew, with the strides and sizes as constants
    writeable: bool = True
    version: int = 0
    reads: dict[Chain, ValueId] = field(default_factory=dict)  # of the current version
    owner: Recorder | None = None  # the recorder whose builder made the values
    captured: Callable[[], str] | None = (
        None  # tells its name, where it belongs to the program around a transformed function
    )

    def depends(self, what: str) -> NoReturn:
        """Free strides leave a question open: the recording begins anew, with constants.

        Raises `ShapeError` if there is no array at hand to take them from.
        """
        if self.fix is not None:
            self.fix()
        raise ShapeError(
            f"{what} depends on the strides of an array of free strides",
            remedy="pass a contiguous array, or copy it first",
        )


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
        self.storage.depends("the contiguity of a view")

    def reshape_is_view(self, shape: Sequence[Size]) -> bool:
        """Whether NumPy reshapes to `shape` without a copy."""
        if geometry.reshape_strides(self.operand, representatives(shape)) is not None:
            return True
        if self.storage.free:
            self.storage.depends("a reshape")
        return False

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
