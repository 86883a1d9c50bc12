"""Calls of array functions while an interpreter is on the stack: they are recorded, not run.

What goes in: a function and arguments, tensors among them. What comes out: tensors that stand for values of the
interpreter. What holds: the function's entry in the frontend runs, as it does when a graph is captured; a function
without one runs beneath the interpreter if no argument stands for many. Errors are those of NumPy where NumPy raises.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from broadloom.errors import DTypeError, ShapeError, TransformError
from broadloom.frontend.entry import Entry
from broadloom.frontend.unsupported import NumpyRaises
from broadloom.graph.ir import ValueId
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.tensor.dispatch import Traced, call, data_of_any, is_own, over, traced, with_tensors
from broadloom.tensor.operations import GETITEM, SETITEM, Run, run_entry
from broadloom.tensor.stack import active, outside
from broadloom.tensor.users import user_location


class RecordingInterpreter:
    """An interpreter that gives ops another meaning by what its recorder's builder does with them."""

    recorder: Recorder

    @abstractmethod
    def lift(self, x: Any) -> ArrayHandle:
        """An array or tensor from outside of the interpreter, as one of its own."""

    @abstractmethod
    def concrete(self, value: ValueId) -> Any:
        """The array that a value is, if it is one; raises `TransformError` where it stands for many."""

    def tensor(self, handle: ArrayHandle) -> Any:
        """A handle of this interpreter as a tensor."""
        return traced(self, handle)

    def call(
        self, name: str, function: Run, entry: Entry | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Runs the entry of a function over the recorder."""
        back: dict[int, Any] = {}  # so that a result that is an argument is that very tensor
        tensors = is_own(function)  # whether results are tensors

        def inward(x: Any) -> Any:
            nonlocal tensors
            handle = self.lift(x)
            back[id(handle)] = x
            tensors = tensors or handle.tensor
            return handle

        def outward(h: ArrayHandle) -> Any:
            if id(h) in back:
                return back[id(h)]
            if tensors and h.numpy_scalar:  # what is a scalar of arrays is a tensor without axes of tensors
                h = self.recorder.adopt(self.recorder.read(h))
            h.tensor = tensors
            return traced(self, h)

        if entry is None:
            return self._beneath(name, function, args, kwargs)
        given = [over(a, inward) for a in args]
        if function in (GETITEM.run, SETITEM.run):
            given[1] = over(args[1], lambda x: self._known_mask(x) if x.dtype == np.bool else inward(x))
        named = {k: over(v, inward) for k, v in kwargs.items()}
        try:
            return with_tensors(run_entry(entry, self.recorder, given, named), outward)
        except (ShapeError, TransformError) as error:
            refusal = error.__cause__
            found = getattr(refusal, "__cause__", None)
            if isinstance(refusal, NumpyRaises) or isinstance(found, (ShapeError, DTypeError)):
                _raise_as_numpy(function, args, kwargs)
            raise

    def _known_mask(self, x: Any) -> Any:
        """A mask as an array, where all examples share it: then it is known how many elements it selects."""
        if type(x) is not Traced:
            return data_of_any(x)
        handle = self.lift(x)
        try:
            return self.concrete(self.recorder.read(handle))
        except TransformError:
            return handle

    def _beneath(self, name: str, function: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A function that the frontend does not know: it runs beneath the interpreter, on arrays."""
        try:
            with outside(self):
                return call(
                    function,
                    *(over(a, data_of_any) for a in args),
                    **{k: over(v, data_of_any) for k, v in kwargs.items()},
                )
        except TransformError as error:
            raise TransformError(
                f"{name} of a batched value",
                got="a function without a batching rule of its own, since it is not made of ops",
                allowed="functions of the frontend's table, and indexing",
                remedy="call it outside of the batched function",
                location=user_location(),
            ) from error


def _raise_as_numpy(function: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what NumPy raises for one example, with a note of the user's line; nothing where it raises nothing.

    The call was refused for its types and shapes, so elements do not matter: they are zeros.
    """

    def example(x: Any) -> Any:
        return np.zeros(x.shape, x._handle.dtype.numpy) if type(x) is Traced else np.array(data_of_any(x))

    if is_own(function):
        return
    try:
        with outside(active()[0]), np.errstate(all="ignore"):
            function(*(over(a, example) for a in args), **{k: over(v, example) for k, v in kwargs.items()})
    except np.linalg.LinAlgError:  # of the zeros
        return
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        error.add_note(f"at {user_location()}")
        raise
