"""Arithmetic on Python numbers: symbolic ints stay symbolic, runtime floats become float64 steps of the graph.

What goes in: ints, floats, complex, bools, `Expr`s and `Number`s. What comes out: the same.

What holds: Python's results and Python's exceptions. Where Python would raise for other values (a zero divisor, the
square root of a negative number) a guard says that it does not. A question about a runtime float (a branch) is
answered for this call and guarded; a question about a number that comes from array data is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from broadloom import dtypes
from broadloom.capture.breaks import Code
from broadloom.capture.context import Context
from broadloom.capture.guards import Arithmetic, CompareGuard, ConstantGuard, DefinedGuard, SizeTerm, Term
from broadloom.capture.guards import arithmetic as arithmetic
from broadloom.capture.sources import Source
from broadloom.capture.values import Number, Value
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.symbolic import Expr, Relation, eq, ge, gt, le, lt, ne

Comparison = Literal["<", "<=", "==", "!=", ">", ">="]
RELATIONS: dict[str, Callable[[Any, Any], Relation | bool]] = {
    "<": lt, "<=": le, "==": eq, "!=": ne, ">": gt, ">=": ge,
}  # fmt: skip
FLOAT_OPS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide",
    "//": "floor_divide", "%": "remainder", "**": "pow",
}  # fmt: skip
MATH_UNARY = {
    "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "fabs": "abs", "erf": "erf", "erfc": "erfc",
}  # fmt: skip
MATH_BINARY = {"pow": "pow", "atan2": "atan2", "hypot": "hypot", "copysign": "copysign", "fmod": "fmod"}
NEVER_RAISE = frozenset({"+", "-", "*", "atan", "tanh", "asinh", "fabs", "erf", "erfc", "atan2", "copysign", "cbrt"})


def is_runtime(v: Value) -> bool:
    """A number that is known only at run time."""
    return isinstance(v, Number | Expr)


def is_number(v: Value) -> bool:
    """A Python number, constant or not."""
    return isinstance(v, int | float | complex | Expr | Number) and not isinstance(v, np.generic)


def term_of(c: Context, v: Value) -> Term | None:
    """How guards compute a number again."""
    if isinstance(v, Number):
        return v.term
    return c.size_term(v) if isinstance(v, Expr) else v


def value_of(c: Context, v: Value) -> Any:
    """The number in this call; None if it comes from array data."""
    if isinstance(v, Number):
        return v.value
    return c.env.hint(v) if isinstance(v, Expr) else v


def constant(c: Context, v: Value) -> Any:
    """The Python number behind a runtime number, which is thereby specialised."""
    if isinstance(v, Expr):
        return c.constant_int(v)
    if not isinstance(v, Number):
        return v
    if v.value is None or v.term is None:
        c.refuse(
            Code.DATA_DEPENDENT,
            "a Python number from array data",
            "this step needs the value of a number that only the data of an array can tell",
            "keep it as an array or NumPy scalar, or compute it outside the compiled function",
        )
    _specialise(c, v.term)
    return v.value


def _specialise(c: Context, term: Term) -> None:
    match term:
        case Source():
            known = c.realised.get(term)
            if isinstance(known, Number):
                c.guard(ConstantGuard(term, known.value))
            elif isinstance(known, Expr):
                c.constant_int(known)
            else:  # a size of an array
                for symbol, source in c.symbols.items():
                    if source == term:
                        c.constant_int(symbol)
        case SizeTerm(size, _):
            c.constant_int(size)
        case Arithmetic(_, operands):
            for operand in operands:
                _specialise(c, operand)


def handle(c: Context, v: Value, dtype: dtypes.DType = dtypes.float64) -> ArrayHandle:
    """A number as a 0-d value of the graph."""
    if isinstance(v, Number):
        h = c.here(v.weak.handle)
    elif isinstance(v, Expr):
        h = c.recorder.size(v)
    else:
        try:
            return c.recorder.constant(np.asarray(v, dtype=dtype.numpy))
        except (OverflowError, TypeError) as error:
            c.raises(repr(v), str(error))
    result: ArrayHandle = h if h.dtype is dtype else c.recorder.op("cast", h, dtype=dtype)
    return result


def binary(c: Context, op: str, a: Value, b: Value) -> Value:
    """`a op b` where one side is known only at run time."""
    if isinstance(a, int | Expr) and isinstance(b, int | Expr):
        return _sizes(c, op, a, b)
    values = value_of(c, a), value_of(c, b)
    if op not in FLOAT_OPS or any(isinstance(v, Number) and v.kind == "i" for v in (a, b)):
        return python(c, op, constant(c, a), constant(c, b))
    complex_ = any(isinstance(v, complex) or (isinstance(v, Number) and v.kind == "c") for v in (a, b))
    if complex_ and op not in NEVER_RAISE:
        return python(c, op, constant(c, a), constant(c, b))
    value = None if None in values else python(c, op, *values)
    if isinstance(value, complex) and not complex_:
        return python(c, op, constant(c, a), constant(c, b))
    ta, tb = term_of(c, a), term_of(c, b)
    term = None if ta is None or tb is None else Arithmetic(op, (ta, tb))
    _stays_defined(c, op, b, term)
    dtype = dtypes.complex128 if complex_ else dtypes.float64
    x, y = handle(c, a, dtype), handle(c, b, dtype)
    if op == "**" and type(b) in (int, float) and b == 2:
        result = c.recorder.op("multiply", x, x)
    else:
        result = c.recorder.op(FLOAT_OPS[op], x, y)
    return Number(WeakScalar(result, "c" if complex_ else "f"), value, term)


def _stays_defined(c: Context, op: str, divisor: Value, term: Arithmetic | None) -> None:
    """Guard that Python goes on raising nothing for `term`."""
    if op in NEVER_RAISE:
        return
    if op in ("/", "//", "%"):
        if isinstance(divisor, Expr):
            c.decide(ne(divisor, 0))
            return
        if not isinstance(divisor, Number):
            return  # a constant other than zero: it has been divided by
        if divisor.term is not None:
            c.guard(CompareGuard(divisor.term, "!=", 0, True))
            return
    if term is None:
        c.refuse(
            Code.DATA_DEPENDENT,
            f"a Python number from array data under {op}",
            "Python raises for some values where NumPy gives inf or nan",
            "keep the number as an array or NumPy scalar (without float() or .item())",
        )
    c.guard(DefinedGuard(term))


def _sizes(c: Context, op: str, a: int | Expr, b: int | Expr) -> Value:
    """Arithmetic of symbolic ints, in Python's unbounded integers: what 64 bits cannot hold is computed from
    constants, for which the symbols are fixed."""
    a, b = (int(v) if isinstance(v, bool) else v for v in (a, b))
    match op:
        case "+" | "-" | "*":
            result = a + b if op == "+" else a - b if op == "-" else a * b
            if c.fits(result):
                return result
        case "//" | "%":
            if c.fits(a) and c.fits(b) and c.decide(gt(b, 0)):
                return a // b if op == "//" else a % b
        case "/":
            exact = 2**53  # beyond, the operands would be rounded before they are divided
            if c.fits(a, exact) and c.fits(b, exact) and (not isinstance(b, int) or b != 0):
                value = python(c, op, value_of(c, a), value_of(c, b))
                term = Arithmetic(op, tuple(c.size_term(v) for v in (a, b)))
                _stays_defined(c, op, b, term)
                return Number(WeakScalar(c.recorder.op("divide", handle(c, a), handle(c, b)), "f"), value, term)
        case "**":
            if isinstance(b, int) and 0 <= b <= 8:
                power: int | Expr = 1
                for _ in range(b):
                    power = power * a
                if c.fits(power):
                    return power
    return python(c, op, constant(c, a), constant(c, b))


def python(c: Context, op: str, *operands: Any) -> Any:
    """Python's own arithmetic on constants; what raises is refused."""
    if op == "**" and all(isinstance(o, int) for o in operands):
        base, exponent = operands
        if exponent > 0 and base.bit_length() * exponent > 1 << 16:
            c.refuse(Code.TOO_LONG, f"{base} ** {exponent}", "an int of more than 65536 bits", "use floats")
    if op == "<<" and isinstance(operands[1], int) and operands[1] > 1 << 16:
        c.refuse(Code.TOO_LONG, f"{operands[0]} << {operands[1]}", "an int of more than 65536 bits", "use floats")
    if op == "*" and any(isinstance(o, str | bytes) for o in operands) and max(map(_count, operands)) > 1 << 20:
        c.refuse(Code.TOO_LONG, "a repeated string", "more than a million repetitions", "make it outside")
    try:
        return arithmetic(op, *operands)
    except (ArithmeticError, ValueError, TypeError) as error:
        c.raises(f"{op} on {', '.join(map(repr, operands))}", f"{type(error).__name__}: {error}")


def _count(operand: Any) -> int:
    return operand if isinstance(operand, int) else 0


def unary(c: Context, op: Literal["-", "+", "abs"], a: Value) -> Value:
    """`-a`, `+a` or `abs(a)` of a runtime number."""
    if op == "+":
        return a
    if isinstance(a, Expr):
        if op == "-":
            return -a
        return a if c.decide(ge(a, 0)) else -a
    name = {"-": "neg", "abs": "abs"}[op]
    if a.kind != "f" and not (a.kind == "c" and op == "-"):
        return python(c, name, constant(c, a))
    value = None if a.value is None else arithmetic(name, a.value)
    term = None if a.term is None else Arithmetic(name, (a.term,))
    step = c.recorder.op("negative" if op == "-" else "abs", a.weak.handle)
    return Number(WeakScalar(step, a.weak.kind), value, term)


def compare(c: Context, op: Comparison, a: Value, b: Value) -> bool:
    """A comparison with a runtime number: decided for this call and guarded."""
    if isinstance(a, int | Expr) and isinstance(b, int | Expr):
        return c.decide(RELATIONS[op](*(int(v) if isinstance(v, bool) else v for v in (a, b))))
    ta, tb = term_of(c, a), term_of(c, b)
    values = value_of(c, a), value_of(c, b)
    if ta is None or tb is None or None in values:
        c.refuse(
            Code.ARRAY_CONDITION,
            f"a comparison ({op}) of a Python number from array data",
            "the outcome depends on the data of an array, and Python control flow needs it",
            "use numpy.where, or keep the comparison as an array",
        )
    outcome = python(c, op, *values)
    c.guard(CompareGuard(ta, op, tb, outcome))
    return bool(outcome)


def math_function(c: Context, name: str, args: list[Value]) -> Value:
    """A function of `math` on numbers of which one is known only at run time."""
    known = (len(args) == 1 and name in MATH_UNARY) or (len(args) == 2 and name in MATH_BINARY)
    if name == "log" and len(args) == 2:
        return binary(c, "/", math_function(c, "log", args[:1]), math_function(c, "log", args[1:]))
    if name in ("degrees", "radians") and len(args) == 1:
        return binary(c, "*", args[0], 180.0 / math.pi if name == "degrees" else math.pi / 180.0)
    if not any(is_runtime(a) for a in args) or not known or any(isinstance(a, Number) and a.kind != "f" for a in args):
        return python(c, name, *(constant(c, a) for a in args))
    values = [value_of(c, a) for a in args]
    value = None if None in values else python(c, name, *values)
    terms = [term_of(c, a) for a in args]
    term = None if None in terms else Arithmetic(name, tuple(t for t in terms if t is not None))
    if name not in NEVER_RAISE:
        _stays_defined(c, name, args[-1], term)
    op = MATH_UNARY.get(name) or MATH_BINARY[name]
    return Number(WeakScalar(c.recorder.op(op, *(handle(c, a) for a in args)), "f"), value, term)


def to_float(c: Context, v: Value) -> Value:
    """`float(v)` of a runtime number."""
    if isinstance(v, Number) and v.kind == "f":
        return v
    if isinstance(v, Number) and v.kind == "c":
        c.raises("float(complex)", "TypeError: float() argument must be a real number")
    value = value_of(c, v)
    return Number(WeakScalar(handle(c, v), "f"), None if value is None else float(value), _as_float(term_of(c, v)))


def _as_float(term: Term | None) -> Term | None:
    return None if term is None else Arithmetic("*", (1.0, term))
