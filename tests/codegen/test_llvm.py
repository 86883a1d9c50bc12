"""The text builder: LLVM accepts what it makes, and it refuses ill-typed instructions itself."""

import ctypes
import struct

import llvmlite.binding as llvm
import pytest

from broadloom.codegen.llvm import Param, Val, const_bits, const_float, const_int, constant, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.types import literal
from broadloom.dtypes import ALL, float32
from broadloom.errors import VerifyError
from broadloom.runtime.target import assembly, host

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def parsed(module):
    m = llvm.parse_assembly(str(module))
    m.verify()
    return m


def test_structured_control_flow_runs():
    m = ModuleBuilder("t")
    f = m.function("count", "i64", [Param("i64", "n")])
    n = f.params[0]

    def body(i, total):
        odd = f.trunc(i, "i1")
        return f.if_then(odd, lambda: [f.add(total, i)], lambda: [total])

    (total,) = f.for_loop(i64(0), n, body, [i64(0)])
    f.ret(total)
    target = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    code = target.emit_object(parsed(m))
    jit = llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(jit=True))
    library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol("count").link(jit, "t")
    count = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library["count"])
    assert [count(k) for k in (0, 1, 2, 10)] == [0, 0, 1, 25]


def test_every_instruction_is_accepted_on_vectors():
    m = ModuleBuilder("t")
    f = m.function("all", "void", [Param("<4 x float>", "x"), Param("<4 x i32>", "k"), Param("ptr", "p", "noalias")])
    x, k, p = f.params
    f.store(f.select(f.fcmp("ult", x, f.fneg(x)), f.fadd(x, x, "reassoc"), f.sitofp(k, x.type)), p, 4)
    f.store(f.bitcast(f.splat(f.extract(x, 2), 4), "<4 x i32>"), p, 4)
    f.store(f.intrinsic("sqrt", f.insert(x, const_float("float", 2.0), 1)), p)
    f.store(f.intrinsic("ctlz", k, Val("i1", "false")), f.gep("<4 x i32>", p, i64(3)))
    f.store(f.shuffle(x, x, [0, 5]), f.alloca("<2 x float>"))
    f.store(f.not_(f.icmp("slt", k, constant(k.type, "3"))), p)
    f.ret()
    parsed(m)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda f, x, n: f.add(n, Val("i32", "1")),
        lambda f, x, n: f.fadd(n, n),
        lambda f, x, n: f.add(x, x),
        lambda f, x, n: f.select(n, x, x),
        lambda f, x, n: f.trunc(n, "i128"),
        lambda f, x, n: f.bitcast(x, "i64"),
        lambda f, x, n: f.load("float", n),
        lambda f, x, n: f.gep("float", x, n),
        lambda f, x, n: f.icmp("ole", n, n),
        lambda f, x, n: f.ret(x),
        lambda f, x, n: f.intrinsic("maxnum", x, n),
        lambda f, x, n: (f.unreachable(), f.add(n, n)),
        lambda f, x, n: f.module.function("f", "void"),
        lambda f, x, n: (f.module.declare("g", "void", ()), f.module.declare("g", "i32", ())),
        lambda f, x, n: f.phi("i64").add(x, f.entry),
    ],
)
def test_ill_typed_instructions_are_refused(wrong):
    f = ModuleBuilder("t").function("f", "void", [Param("float", "x"), Param("i64", "n")])
    with pytest.raises(VerifyError):
        wrong(f, *f.params)


def test_intrinsic_with_its_own_types_is_not_declared_twice():
    m = ModuleBuilder("t")
    f = m.function("f", "float", [Param("float", "x")])
    y = f.intrinsic("maxnum", f.intrinsic("maxnum", f.params[0], f.params[0]), f.params[0])
    f.ret(y)
    assert str(m).count("declare") == 1
    parsed(m)


@pytest.mark.parametrize(
    "bits", [0, 1, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x3DCCCCCD, 0x7F7FFFFF]
)
def test_float_literals_keep_their_bits(bits):
    m = ModuleBuilder("t")
    f = m.function("f", "i32")
    f.ret(f.bitcast(const_bits("float", bits), "i32"))
    passes = llvm.create_pass_builder(
        llvm.Target.from_default_triple().create_target_machine(), llvm.create_pipeline_tuning_options(speed_level=2)
    )
    module = parsed(m)
    passes.getModulePassManager().run(module, passes)
    assert f"ret i32 {struct.unpack('<i', struct.pack('<I', bits))[0]}" in str(module)


def test_literals_of_every_dtype_parse():
    for k, dtype in enumerate(ALL):
        for byte in (0, 1, 0x80, 0xFF):
            m = ModuleBuilder("t")
            for part, (type_, text) in enumerate(literal(dtype, bytes([byte] * dtype.itemsize))):
                f = m.function(f"f{k}.{part}", type_)
                f.ret(Val(type_, text))
            parsed(m)
    assert literal(float32, struct.pack("<f", -0.0)) == (("float", "0x8000000000000000"),)


def test_helpers_data_and_metadata_are_added_once():
    m = ModuleBuilder("t")
    built = []

    def build(h):
        built.append(1)
        h.ret(h.add(h.params[0], const_int("i32", 1)))

    f = m.function("f", "i32", [Param("i32", "x")])
    for _ in range(2):
        helper = m.helper("h", "i32", [Param("i32", "x")], build)
    f.ret(f.call(helper, f.params[0]))
    assert built == [1]
    assert m.data(b'ab\x00"\\') == m.data(b'ab\x00"\\') != m.data(b"ac")
    assert m.metadata("i32 1") == m.metadata("i32 1") != m.metadata("self", distinct=True)
    assert "internal" in str(m) and str(m) == str(m)
    parsed(m)


@pytest.mark.parametrize(
    ("plain", "attributes"), [(False, "nounwind"), (True, "nounwind"), (False, "noinline optnone")]
)
def test_loops_hide_their_counters_from_all_but_the_vectoriser(plain, attributes):
    module = ModuleBuilder("m", triple=host().triple)
    f = module.function("f", "void", [Param("ptr", "x"), Param("i64", "n")], attributes=attributes)
    f.hides, f.plain = True, plain
    f.for_loop(i64(0), f.params[1], lambda i: f.store(i, f.gep("i64", f.params[0], i)))
    f.ret()
    text = str(module)
    assert text.count("call ptr @llvm.strip.invariant.group.p0(") == (not plain and "optnone" not in attributes)
    code = assembly(text)
    assert "invariant" not in code and "call" not in code
