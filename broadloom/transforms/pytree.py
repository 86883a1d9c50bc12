"""Pytrees: nested containers with arrays as leaves.

What goes in: tuples, named tuples, lists, dicts and None, nested at will; everything else is a leaf. What comes out:
the list of leaves, in order (dict entries in the order of the dict), and the structure without them.

What holds: `unflatten(*flatten(x)) == x`. None has no leaves. The containers are made anew, of the same classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broadloom.errors import TransformError
from broadloom.records import dataclass


@dataclass(frozen=True, slots=True)
class Structure:
    """A pytree without its leaves. `kind` is None for a leaf, else the class of the container; `keys` are a dict's."""

    kind: type | None
    parts: tuple[Structure, ...] = ()
    keys: tuple[Any, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is None else sum(p.leaves for p in self.parts)


LEAF = Structure(None)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves and the structure.

    >>> leaves, structure = flatten({"a": [1, 2], "b": (3, None)})
    >>> leaves
    [1, 2, 3]
    >>> unflatten([x * 10 for x in leaves], structure)
    {'a': [10, 20], 'b': (30, None)}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    children = _children(tree)
    if children is None:
        leaves.append(tree)
        return LEAF
    keys = tuple(tree) if isinstance(tree, dict) else ()
    return Structure(type(tree), tuple(_flatten(c, leaves) for c in children), keys)


def _children(tree: Any) -> Sequence[Any] | None:
    """What a container holds; None for a leaf."""
    kind = type(tree)
    if tree is None:
        return ()
    if kind in (tuple, list) or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return tree  # type: ignore[no-any-return]
    return tuple(tree.values()) if kind is dict else None


def unflatten(leaves: Sequence[Any], structure: Structure) -> Any:
    """The tree of a structure with these leaves."""
    return _unflatten(iter(leaves), structure)


def _unflatten(leaves: Any, structure: Structure) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    parts = [_unflatten(leaves, p) for p in structure.parts]
    if kind is type(None):
        return None
    if kind is dict:
        return dict(zip(structure.keys, parts, strict=True))
    return parts if kind is list else tuple.__new__(kind, parts)


def broadcast_prefix(prefix: Any, structure: Structure, what: str) -> list[Any]:
    """One entry of `prefix` for each leaf: an entry that is no container counts for all leaves below it.

    Raises `TransformError` where the containers of `prefix` are not those of the tree.

    >>> broadcast_prefix((0, None), flatten(([1, 2], 3))[1], "in_axes")
    [0, 0, None]
    """
    if prefix is None or structure.kind is None or _children(prefix) is None:
        if _children(prefix) and structure.kind is None:
            raise TransformError(f"{what} has a container where the tree has an array", got=repr(prefix))
        return [prefix] * structure.leaves
    children = _children(prefix) or ()
    keys = tuple(prefix) if isinstance(prefix, dict) else ()
    rows = isinstance(prefix, tuple | list) and issubclass(structure.kind, tuple | list)
    alike = rows or type(prefix) is structure.kind
    if not alike or len(children) != len(structure.parts) or set(keys) != set(structure.keys):
        raise TransformError(
            f"{what} does not fit the tree",
            got=repr(prefix),
            allowed=f"one value, or a {structure.kind.__name__} of {len(structure.parts)}",
            remedy="give an entry for each part",
        )
    if keys:
        children = [prefix[k] for k in structure.keys]
    return [e for c, p in zip(children, structure.parts, strict=True) for e in broadcast_prefix(c, p, what)]
