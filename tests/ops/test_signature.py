"""The signature grammar: what parses, prints and binds, and what is refused with which words."""

import pytest

from broadloom.errors import ParseError, ShapeError
from broadloom.ops.signature import Signature
from broadloom.symbolic import Symbol

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
