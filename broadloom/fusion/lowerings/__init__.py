"""The table from op to lowering, one explicit dictionary from the files of this folder.

A lowering is `lower(state, node, ids, *operands) -> TensorBox | tuple[TensorBox, ...]`.
"""
