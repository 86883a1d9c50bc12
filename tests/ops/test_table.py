"""The op table is complete, and each record keeps what `ops.record` promises."""

import numpy as np
import pytest

from broadloom.dtypes import ALL, DType
from broadloom.errors import DTypeError, ParseError, ShapeError
from broadloom.ops.infer import complete
from broadloom.ops.record import Trait
from broadloom.ops.sampling import operand_dtypes
from broadloom.ops.signature import Signature
from broadloom.ops.table import FAMILIES, OPS


def words(text):
    return text.split()


ARRAY_API_ELEMENTWISE = words("""
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide
    greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and
    logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
    reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc
""")

FURTHER = words("""
    bitwise_count cbrt exp2 erf erfc fmod fmax fmin fma gcd heaviside interpolate logaddexp2 where cast bitcast complex
    mantissa exponent fraction ldexp spacing
    sum prod max min mean var std any all count_nonzero logsumexp argmax argmin cumsum cumprod cummax cummin
    iota eye from_size permute reshape expand slice diagonal view_dtype
    flip roll pad extend concat stack repeat tile take take_along_axis gather slice_update scatter
    pack unpack
    sort argsort searchsorted
    matmul matvec vecmat vecdot outer fft rfft irfft lu_factor lu_solve cholesky triangular_solve solve inv det slogdet
    qr qr_raw svd svdvals eigh eigvalsh eig eigvals
    key_word word_key philox random_below random_unit random_normal random_gamma random_poisson random_binomial
    random_vonmises random_zipf
    portable_log portable_log1p portable_exp portable_expm1 portable_sinpi portable_cospi
""")

EACH = pytest.mark.parametrize("op", OPS.values(), ids=str)


def test_every_elementwise_function_of_the_array_api_is_an_op():
    assert [name for name in ARRAY_API_ELEMENTWISE if name not in OPS] == []


def test_the_table_has_exactly_the_ops_it_should():
    assert sorted(OPS) == sorted(ARRAY_API_ELEMENTWISE + FURTHER)
    assert sum(map(len, FAMILIES)) == len(OPS), "a name stands in two families"


@EACH
def test_records_are_filled_in(op):
    assert len(op.doc) > 3 and op.doc.strip() == op.doc
    assert op.traits or op.name in {"where"}, "passes ask traits"
    assert op.samples and op.sample_dtypes
    assert set(op.defaults) <= set(op.attr_names)


@EACH
def test_every_dtype_has_a_cell_or_a_written_reason(op):
    if op.has(Trait.CREATION):
        covered = {s.attrs["dtype"] for s in op.samples if "dtype" in s.attrs} or set(ALL)
    else:
        covered = {dtypes[op.principal] for dtypes in op.sample_dtypes}
    for dtype in ALL:
        assert (dtype in covered) != (dtype in op.empty), f"{op} x {dtype}"
    for dtype, reason in op.empty.items():
        assert len(reason.split()) >= 4, f"{op} x {dtype}: the reason is a sentence"


@EACH
def test_an_empty_cell_is_refused_with_its_reason(op):
    sample = op.samples[0]
    for dtype, reason in op.empty.items():
        filled = list(operand_dtypes(sample, op.sample_dtypes[0]))
        same = filled[op.principal]
        dtypes = tuple(dtype if d is same else d for d in filled)
        with pytest.raises(DTypeError) as caught:
            op.result_dtypes(dtypes, complete(op, sample.attrs))
        assert reason in str(caught.value)


@EACH
def test_unequal_dtypes_are_refused(op):
    sample = op.samples[0]
    dtypes = operand_dtypes(sample, op.sample_dtypes[-1])
    for i, d in enumerate(dtypes):
        if len(dtypes) < 2 or (op.has(Trait.GATHER) and i == 0):
            continue
        wrong = DType("float8", "f", 8)
        with pytest.raises(DTypeError):
            op.result_dtypes((*dtypes[:i], wrong, *dtypes[i + 1 :]), complete(op, sample.attrs))
        assert d is not wrong


@EACH
def test_signatures_print_and_parse(op):
    for sample in op.samples:
        signature = op.signature(complete(op, sample.attrs))
        assert Signature.parse(str(signature)) == signature
        assert signature.core_ranks(len(sample.core_shapes)) is not None
        if op.has(Trait.POINTWISE):
            assert not any(signature.core_ranks(len(sample.core_shapes))) and signature.outputs == ((),)


@EACH
def test_attributes_are_checked(op):
    attrs = dict(op.samples[0].attrs)
    with pytest.raises(ShapeError, match="unknown attribute"):
        complete(op, {**attrs, "colour": 1})
    for name in op.attr_names:
        if name not in op.defaults:
            with pytest.raises(ShapeError, match="is missing"):
                complete(op, {k: v for k, v in attrs.items() if k != name})
        with pytest.raises((ShapeError, DTypeError)):
            wrong = {**op.defaults, **attrs, name: object()}
            op.signature(wrong)
            op.result_dtypes(operand_dtypes(op.samples[0], op.sample_dtypes[-1]), wrong)


@EACH
def test_axes_count_from_the_end(op):
    for name in ("axis", "axes", "axis1", "axis2"):
        if name in op.attr_names:
            attrs = complete(op, op.samples[0].attrs)
            attrs[name] = (0,) if name == "axes" else 0
            with pytest.raises(ShapeError, match="count"):
                op.signature(attrs)


def test_unsorted_and_repeated_axes_are_refused():
    for axes in ((-1, -2), (-1, -1), [-1], (True,)):
        with pytest.raises(ShapeError, match="distinct axes"):
            OPS["sum"].signature({"axes": axes, "keepdims": False})


def test_traits_say_what_passes_ask():
    def having(trait):
        return {name for name, op in OPS.items() if op.has(trait)}

    assert having(Trait.VIEW) == {"permute", "reshape", "expand", "slice", "diagonal", "view_dtype"}
    assert having(Trait.CREATION) == {"iota", "eye", "from_size"}
    assert {"take", "gather", "take_along_axis", "scatter", "cholesky", "solve", "inv"} <= having(Trait.MAY_RAISE)
    assert {"add", "multiply", "hypot", "equal"} <= having(Trait.COMMUTATIVE)
    assert not having(Trait.COMMUTATIVE) & {"subtract", "divide", "maximum", "fmax", "less"}
    assert {"exp", "sin", "pow", "erf", "divide"} <= having(Trait.EXPENSIVE)
    assert not having(Trait.EXPENSIVE) & having(Trait.CHEAP)


def test_raising_depends_on_dtypes_and_attributes():
    floats, ints = (OPS["pow"].sample_dtypes[i] for i in (-3, 0))
    assert ints[0].kind == "i" and floats[0].kind == "f"
    assert OPS["pow"].may_raise(ints, {}) and not OPS["pow"].may_raise(floats, {})
    assert not OPS["lu_factor"].may_raise(floats[:1], {})
    assert OPS["lu_factor"].may_raise(floats[:1], {"check_singular": True})
    assert OPS["take"].may_raise((), {}) and not OPS["add"].may_raise((), {})


@EACH
def test_commutative_ops_commute(op):
    if not op.has(Trait.COMMUTATIVE):
        assert op.name not in {"add", "multiply"}
        return
    for x_dtype, y_dtype in op.sample_dtypes:
        x, y = np.array([3, 5, 0]).astype(x_dtype.numpy), np.array([2, 7, 1]).astype(y_dtype.numpy)
        assert op.reference(x, y).tobytes() == op.reference(y, x).tobytes()


def test_a_broken_signature_is_a_parse_error():
    with pytest.raises(ParseError):
        Signature.parse("(n)->(k)")
