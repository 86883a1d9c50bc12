"""The normalising layer: every instruction of ordinary code is in the vocabulary, and the vocabulary is handled."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator

import numpy as np

from broadloom.capture import instructions, normalise
from tests.capture import test_constructs, test_more_constructs

ENDS = {"return", "yield"}


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def test_every_instruction_of_the_tables_has_a_handler() -> None:
    in_handlers = {"PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT", "WITH_EXCEPT_START", "END_FOR", "CLEANUP_THROW"}
    for module in (test_constructs, test_more_constructs):
        for fn, _ in module.CASES:
            for code in code_objects(fn.__code__):
                for i in normalise.normalise(code):
                    assert i.op in instructions.HANDLERS or i.op in ENDS
                    if i.op == "unsupported":
                        assert i.arg in in_handlers or "STOPITERATION" in i.arg or "BUILD_CLASS" in i.arg, i


def test_every_rule_names_an_opcode_of_some_version_and_a_handler() -> None:
    tables = (normalise._PLAIN, normalise._BY_ARG, normalise._BY_NAME)
    produced = {op for table in tables for op in table.values()}
    assert produced - ENDS <= instructions.HANDLERS.keys()
    here = set(dis.opmap)
    known = {*normalise._PLAIN, *normalise._BY_ARG, *normalise._BY_NAME, *normalise._UNARY, *normalise._RULES}
    assert len(known & here) > 60


def test_jumps_land_on_instructions_and_lines_are_the_users() -> None:
    def f(xs):
        total = 0
        for x in xs:
            if x is None:
                continue
            while x > 0 and total < 100:
                x -= 1
                total += x if x % 2 else 1
        return [t for t in (total, None) if t is not None]

    lines, start = inspect.getsourcelines(f)
    for code in code_objects(f.__code__):
        steps = normalise.normalise(code)
        for i in steps:
            assert start <= i.line < start + len(lines)
            if i.op in ("jump", "pop_jump", "for_iter"):
                assert 0 <= i.arg[0] < len(steps)


def test_more_locals_than_one_byte_can_count(harness) -> None:
    """Wide arguments (EXTENDED_ARG) and paired instructions."""
    names = [f"a{i}" for i in range(300)]
    body = "\n".join(f"    {n} = x + {i}" for i, n in enumerate(names))
    total = " + ".join(names[::37])
    space: dict[str, object] = {}
    exec(f"def wide(x):\n{body}\n    return {total}, {names[-1]}\n", space)
    harness.check(space["wide"], lambda: (np.arange(3.0),))
