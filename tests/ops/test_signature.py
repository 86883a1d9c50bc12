"""The signature grammar: what parses, prints and binds, and what is refused with which words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadloom.errors import ParseError, ShapeError
from broadloom.ops.signature import Combine, Count, Dim, Signature
from broadloom.symbolic import ShapeEnv, Symbol

TEXTS = [
    "()->()",
    "(),()->()",
    "(n),(n)->()",
    "(m?,n),(n,p?)->(m?,p?)",
    "(3),(3)->(3)",
    "(3?|1,n?)->(n?)",
    "(n|1),(n|1)->(n)",
    "(m),(n)->(m+n-1)",
    "(m),(n)->(m-(n-1))",
    "(m),(n)->((m+n)*2//3)",
    "(m)->(m*(2*3))",
    "(m,n)->(max(min(m,n-2),0))",
    "(n#,m)...->(n#,m)",
    "(k),(n)...->(#,n,k)",
    "(n,n)->(n,n),(n)",
    "->(5)",
    "->()",
    "(n)->(m!)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_parse_and_print_are_inverse(text):
    signature = Signature.parse(text)
    assert str(signature) == text
    assert Signature.parse(str(signature)) == signature


def test_spaces_mean_nothing():
    assert str(Signature.parse(" ( m , n ) , ( n ) -> ( m ) ")) == "(m,n),(n)->(m)"


def test_symbolic_sizes_stand_in_brackets():
    s0 = Symbol("s0")
    signature = Signature.parse("(n)->(n,[2*s0])", {"s0": s0})
    assert Signature.parse(str(signature), {"s0": s0}) == signature
    loop, dims = signature.bind([(7, 3)])
    assert signature.output_shapes(loop, dims) == ((7, 3, 2 * s0),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(n)", "expected '->' at column 4"),
        ("(n)->", "expected '('"),
        ("(n)->(m)", "named in no operand"),
        ("(n->(n)", "expected ')'"),
        ("(n)->(n))", "expected the end"),
        ("(n,)->(n)", "expected a dim"),
        ("(n$)->(n)", "unexpected character at column 3"),
        ("...->()", "needs an operand"),
        ("(n)->(n|1)", "expected ')'"),
        ("(n+1)->(n)", "expected ')'"),
        ("", "expected '->'"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text, words):
    with pytest.raises(ParseError) as caught:
        Signature.parse(text)
    assert words in str(caught.value)


def outputs(text, *shapes, decide=None):
    signature = Signature.parse(text)
    loop, dims = signature.bind(shapes, decide)
    return signature.output_shapes(loop, dims)


MATMUL = "(m?,n),(n,p?)->(m?,p?)"


@pytest.mark.parametrize(
    ("text", "shapes", "expected"),
    [
        (MATMUL, [(2, 3), (3, 4)], (2, 4)),
        (MATMUL, [(3,), (3, 4)], (4,)),
        (MATMUL, [(2, 3), (3,)], (2,)),
        (MATMUL, [(3,), (3,)], ()),
        (MATMUL, [(7, 1, 2, 3), (5, 3, 4)], (7, 5, 2, 4)),
        (MATMUL, [(3,), (5, 3, 4)], (5, 4)),
        (MATMUL, [(0, 2, 3), (1, 3, 0)], (0, 2, 0)),
        ("(3),(3)->(3)", [(4, 3), (1, 3)], (4, 3)),
        ("(n|1),(n|1)->(n)", [(1,), (5,)], (5,)),
        ("(n|1),(n)->(n)", [(1,), (5,)], (5,)),
        ("(n|1),(n)->(n)", [(1,), (1,)], (1,)),
        ("(2?|1,3?|1)->(2,3)", [(3,)], (2, 3)),
        ("(2?|1,3?|1)->(2,3)", [()], (2, 3)),
        ("(2?|1,3?|1)->(2,3)", [(7, 1, 3)], (7, 2, 3)),
        ("(m),(n)->(m+n-1)", [(4,), (3,)], (6,)),
        ("(m,n)->(max(min(m,n-2),0))", [(4, 1)], (0,)),
        ("(n#,m)...->(n#,m)", [(2, 4), (3, 4), (8, 0, 4)], (8, 5, 4)),
        ("(n)...->(#,n)", [(6,), (6,), (6,)], (3, 6)),
        ("->(5)", [], (5,)),
    ],
)
def test_shapes(text, shapes, expected):
    assert outputs(text, *shapes) == (expected,)


@pytest.mark.parametrize(
    ("text", "shapes", "words"),
    [
        ("(n),(n)->()", [(3,), (4,)], "core dim n is 4, not 3"),
        ("(n|1),(n)->()", [(3,), (1,)], "core dim n is 3, not 1"),
        ("(3)->()", [(4,)], "core dim 3 is 4, not 3"),
        ("(m,n)->()", [(4,)], "has 1 dims, fewer than its core dims (m,n)"),
        ("(),()->()", [(3,), (4,)], "loop dims 3 and 4 do not broadcast"),
        ("(),()->()", [(3,)], "wrong number of operands"),
        ("(n)...->(n)", [], "1 or more"),
        ("(m),(n)->(m+n-1)", [(0,), (0,)], "is negative"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(text, shapes, words):
    with pytest.raises(ShapeError) as caught:
        outputs(text, *shapes)
    assert words in str(caught.value)


def test_symbolic_sizes_bind_and_broadcast():
    n, m = Symbol("n"), Symbol("m")
    assert outputs("(),()->()", (n, 1), (1, m)) == ((n, m),)
    assert outputs("(),()->()", (n,), (n,)) == ((n,),)
    assert outputs("(k),(l)->(k+l-1)", (n,), (3,)) == ((n + 2,),)
    assert outputs("(k#)...->(k#)", (n,), (m,), (n,)) == ((2 * n + m,),)


def test_an_open_question_is_an_error_without_decide():
    n, m = Symbol("n"), Symbol("m")
    with pytest.raises(ShapeError, match="cannot be proven"):
        outputs("(),()->()", (n,), (m,))
    with pytest.raises(ShapeError, match="cannot be proven"):
        outputs("(k),(k)->()", (n,), (4,))


def test_decide_settles_open_questions():
    n, m = Symbol("n"), Symbol("m")
    asked = []

    def hints(values):
        def decide(relation):
            asked.append(str(relation))
            return relation.holds(values)

        return decide

    assert outputs("(),()->()", (n,), (m,), decide=hints({n: 4, m: 4})) == ((n,),)
    assert outputs("(),()->()", (n,), (4,), decide=hints({n: 4})) == ((4,),)
    assert outputs("(),()->()", (n,), (4,), decide=hints({n: 1})) == ((4,),)
    assert outputs("(k),(k)->(k)", (n,), (4,), decide=hints({n: 4})) == ((4,),)
    with pytest.raises(ShapeError, match="do not broadcast"):
        outputs("(),()->()", (n,), (4,), decide=hints({n: 3}))
    assert asked


# ---- random signatures and shapes ---------------------------------------------------------------------------------

NAMES = st.sampled_from(["m", "n", "k", "batch_2"])
LEAVES = st.one_of(
    st.builds(Dim, st.integers(0, 9)),
    st.builds(Dim, NAMES, each=st.booleans()),
    st.builds(Dim, st.just("given"), given=st.just(True)),
    st.just(Count()),
)
EXPRESSIONS = st.recursive(
    LEAVES, lambda inner: st.builds(Combine, st.sampled_from(["+", "-", "*", "//", "min", "max"]), inner, inner)
)


@given(st.lists(st.lists(EXPRESSIONS, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple))
def test_any_output_expression_prints_and_parses(outputs):
    inputs = (tuple(Dim(name, optional=name == "k") for name in ("m", "n", "k")), (Dim("batch_2", each=True),))
    signature = Signature(inputs, outputs, variadic=True)
    assert Signature.parse(str(signature)) == signature


SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(SHAPES, SHAPES)
def test_binding_agrees_with_numpys_matmul(first, second):
    try:
        expected = np.matmul(np.zeros(first), np.zeros(second)).shape
    except ValueError:
        with pytest.raises(ShapeError):
            outputs(MATMUL, first, second)
    else:
        assert outputs(MATMUL, first, second) == (expected,)


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_loop_dims_broadcast_as_in_numpy(shapes):
    text = f"{','.join(['()'] * len(shapes))}->()"
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError):
            outputs(text, *shapes)
    else:
        assert outputs(text, *shapes) == (expected,)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=3), st.data())
def test_a_symbolic_binding_is_the_static_one_with_symbols(sizes, data):
    """With sizes replaced by symbols of that value, what `decide` answers leads to the same result."""
    env = ShapeEnv()
    shapes = [(env.create(f"s{i}", n) if symbolic else n,) for i, (n, symbolic) in enumerate(sizes)]
    text = data.draw(st.sampled_from(["(),()->()", "(n),(n)->(n)", "(n|1),(n)->(n)", "(n#)...->(n#)"]))
    shapes = shapes if "..." in text else shapes[:2]
    static = [(n,) for n, _ in sizes][: len(shapes)]
    try:
        (expected,) = outputs(text, *static)
    except ShapeError:
        with pytest.raises(ShapeError):
            outputs(text, *shapes, decide=lambda r: env.decide(r, None))
    else:
        (got,) = outputs(text, *shapes, decide=lambda r: env.decide(r, None))
        assert tuple(env.hint(s) for s in got) == expected
