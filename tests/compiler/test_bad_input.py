"""Bad input: a clear error or a correct slow path that is counted; nothing is lost and the process lives on."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
import zlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import GraphBreakError, OptionsError


def run_python(program, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BROADLOOM_")}
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        check=False,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


SMALL = """
import numpy as np, broadloom as bl
f = bl.compile(lambda x: x * 2 + 1)
print(f(np.arange(3.0)), f.report().compiles[0].cache)
"""


def broadloom(*arguments, folder=None, **variables):
    return subprocess.run(
        [sys.executable, "-m", "broadloom.cli", *map(str, arguments)],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


# ---- arguments of the function ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x",
    [
        np.array([1, "a", None], object),
        np.array(["a", "b"]),
        np.zeros(3, np.longdouble),
        np.zeros(3, ">f8"),
        np.zeros(3, [("a", "f4"), ("b", "i4")]),
        np.array(["2020-01-01"], "M8[D]"),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.array([[1.0, 2.0]]).view(np.matrix),
    ],
    ids=lambda x: f"{type(x).__name__}-{x.dtype}",
)
def test_arrays_that_are_not_compiled_run_plainly_and_are_counted(x):
    compiled = bl.compile(lambda x: x[:1])
    for _ in range(3):
        got, want = compiled(x), x[:1]
        assert type(got) is type(want) and got.dtype == want.dtype
    report = compiled.report()
    assert report.compiles == () and sum(s.count for s in report.skips) == 3


def test_other_dtype_and_rank_make_other_specialisations():
    compiled = bl.compile(lambda x: x + 1, fullgraph=True)
    for x in (np.zeros(3), np.zeros(3, np.float32), np.zeros((3, 3)), np.array(1), np.zeros(3, np.uint8)):
        got, want = compiled(x), x + 1
        assert type(got) is type(want) and got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_memmap_is_an_array(tmp_path):
    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=(4,))
    x[:] = [1, 2, 3, 4]
    compiled = bl.compile(lambda x: (x * 2).sum(), fullgraph=True)
    assert compiled(x) == 20.0


def test_shapes_that_do_not_fit_raise_as_numpy_does():
    compiled = bl.compile(lambda x, y: x + y)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="could not be broadcast"):
        compiled(np.zeros(3), np.zeros(4))
    np.testing.assert_array_equal(compiled(np.zeros(3), np.ones(3)), [1, 1, 1])


def test_arguments_that_do_not_fit_raise_typeerror():
    compiled = bl.compile(lambda x, y=1: x + y)
    compiled(np.zeros(2))
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 2}), ((1,), {"x": 2})):
        with pytest.raises(TypeError):
            compiled(*args, **kwargs)


def test_too_many_specialisations_are_refused_loudly():
    compiled = bl.compile(lambda x, k: x * k, dynamic=False, options={"max_specialisations": 3})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 8):
            np.testing.assert_array_equal(compiled(np.ones(n), 2.0), np.full(n, 2.0))
    assert [w for w in seen if "specialisations" in str(w.message)]
    assert len([w for w in seen if "specialisations" in str(w.message)]) == 1
    report = compiled.report()
    assert len(report.compiles) == 3
    assert any("bound of 3" in s.reason and s.count == 4 for s in report.skips)


def test_the_bound_is_told_with_a_remedy_that_helps():
    compiled = bl.compile(lambda x: x * 2, options={"max_specialisations": 1})
    compiled(np.ones(3))
    with pytest.warns(UserWarning, match=r"is float32 .*'max_specialisations': 2\}$") as seen:
        compiled(np.ones(3, np.float32))
    assert seen[0].filename == __file__


def test_a_break_is_told_at_the_line_of_the_call():
    compiled = bl.compile(lambda x: x.tolist())
    with pytest.warns(UserWarning, match="runs as plain Python") as seen:
        compiled(np.ones(3))
    assert seen[0].filename == __file__


# ---- functions --------------------------------------------------------------------------------------------------


def uses_a_generator(x):
    return x + np.random.default_rng(0).normal(size=3)


def branches_on_data(x):
    if x.sum() > 0:
        return x
    return -x


def calls_what_nobody_knows(x):
    return zlib.crc32(b"x"), x


def stops_inside_of_the_library(x):
    return os.path.join("a", "b"), x


@pytest.mark.parametrize(
    "function", [uses_a_generator, branches_on_data, calls_what_nobody_knows, stops_inside_of_the_library]
)
def test_what_cannot_be_captured_runs_plainly_with_one_warning(function):
    compiled = bl.compile(function)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            got, want = compiled(np.ones(3)), function(np.ones(3))
            np.testing.assert_array_equal(got[-1], want[-1])
    (warning,) = seen
    line = function.__code__.co_firstlineno + 1
    assert f"{os.path.basename(__file__)}:{line}" in str(warning.message)
    (record,) = compiled.report().breaks
    assert record.location.line == line and record.hint
    with pytest.raises(GraphBreakError, match=f":{line} in {function.__name__}"):
        bl.compile(function, fullgraph=True)(np.ones(3))


@pytest.mark.parametrize("thing", [np.sin, 3, "f", len, type])
def test_only_python_functions_are_compiled(thing):
    with pytest.raises(OptionsError, match="takes a Python function"):
        bl.compile(thing)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "fsat"}, "unknown mode; got 'fsat'; allowed: default"),
        ({"backend": "gpu"}, "unknown backend"),
        ({"dynamic": "yes"}, "dynamic='yes'.*allowed: dynamic: True, False or None"),
        ({"dynamic": np.ones(2)}, "dynamic"),
        ({"fullgraph": 1}, "fullgraph"),
        ({"options": {"max_specialisation": 3}}, "max_specialisations"),
        ({"options": {"num_threads": -1}}, "num_threads"),
        ({"options": {"passes": "x"}}, "passes"),
        ({"options": 3}, "mapping"),
        ({"options": {3: 1}}, "mapping"),
    ],
)
def test_arguments_of_compile_are_checked(arguments, said):
    with pytest.raises(OptionsError, match=said):
        bl.compile(lambda x: x, **arguments)


@bl.compile
def doubled(x):
    return x * 2


def test_a_compiled_function_is_copied_and_pickled_as_functions_are():
    assert copy.copy(doubled) is doubled
    assert copy.deepcopy({"step": doubled})["step"] is doubled
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    with pytest.raises(OptionsError, match="pickle the function"):
        pickle.dumps(bl.compile(lambda x: x))


# ---- the environment --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BROADLOOM_NUM_THREADS", "many"),
        ("BROADLOOM_NUM_THREADS", "0"),
        ("BROADLOOM_LOGS", "guards,nonsense"),
        ("BROADLOOM_NUM_THREAD", "2"),
    ],
)
def test_nonsense_in_the_environment_is_named(variable, value):
    done = run_python(SMALL, **{variable: value})
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("broadloom.errors.OptionsError") and variable in last and "remedy" in last


def test_doctor_names_nonsense_in_the_environment():
    done = broadloom("doctor", BROADLOOM_NUM_THREADS="many")
    assert done.returncode == 1
    assert "BROADLOOM_NUM_THREADS" in done.stdout and "Traceback" not in done.stderr


# ---- the object cache -------------------------------------------------------------------------------------------


def test_second_process_generates_nothing(tmp_path):
    seen = [run_python(SMALL, BROADLOOM_CACHE_DIR=str(tmp_path / "cache")).stdout.split()[-1] for _ in range(2)]
    assert seen == ["miss", "hit"]
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text"])
def test_damaged_entries_are_replaced(tmp_path, damage):
    options = {"cache_dir": tmp_path / "cache"}
    assert bl.compile(lambda x: x - 3, options=options)(np.ones(1)) == -2
    (entry,) = (tmp_path / "cache").glob("*.entry")
    data = entry.read_bytes()
    changed = {"truncate": data[:-9], "flip": data[:-1] + bytes([data[-1] ^ 1]), "empty": b"", "text": b"hello " * 200}
    entry.write_bytes(changed[damage])
    for expected in ("miss", "hit"):
        compiled = bl.compile(lambda x: x - 3, options=options)
        assert compiled(np.ones(1)) == -2
        assert compiled.report().compiles[0].cache == expected


def test_folder_that_others_can_write_to_is_refused(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    done = run_python(SMALL, BROADLOOM_CACHE_DIR=str(folder))
    assert done.returncode == 0 and done.stdout.split()[-1] == "off"
    assert done.stderr.count("not safe to execute code from") == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("where", ["file", "below a file", "/proc/nowhere"])
def test_folder_that_cannot_be_used_costs_one_warning(tmp_path, where):
    blocked = tmp_path / "file"
    blocked.write_text("")
    folder = {"file": blocked, "below a file": blocked / "cache"}.get(where, where)
    done = run_python(SMALL, BROADLOOM_CACHE_DIR=str(folder))
    assert done.returncode == 0 and done.stdout.split()[-1] == "off"
    assert done.stderr.count("the object cache cannot be used") == 1


@pytest.mark.parametrize("variable", ["CACHE_DIR", "DUMP", "TRACE"])
def test_a_warning_stands_at_the_line_of_the_user(tmp_path, variable):
    program = tmp_path / "program.py"
    program.write_text(SMALL)
    done = run_python(
        f"import runpy; runpy.run_path({str(program)!r})",
        **{"BROADLOOM_CACHE_DIR": str(tmp_path / "cache"), f"BROADLOOM_{variable}": "/proc/nowhere"},
    )
    (warning,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    line = 3 if variable == "CACHE_DIR" else 4
    assert warning.startswith(f"{program}:{line}: UserWarning: ")


def test_dump_is_read_back(tmp_path):
    done = run_python(SMALL, BROADLOOM_DUMP=str(tmp_path / "dump"), BROADLOOM_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0
    (folder,) = (tmp_path / "dump").iterdir()
    stages = sorted(f.name for f in folder.iterdir())
    assert stages[0] == "000_capture.graph"
    suffixes = {f.suffix for f in folder.iterdir()}
    assert suffixes == {".graph", ".loops", ".txt", ".ll"}
    loops = next(folder.glob("*.loops"))
    assert broadloom("opt", folder / stages[0], "--to", "loops").stdout.strip() == loops.read_text().strip()
    assert "bl_run" in broadloom("opt", loops, "--to", "assembly").stdout


FOLDED = """
import numpy as np, broadloom as bl
TABLE = np.arange(100.0)
f = bl.compile(lambda x: np.linalg.solve(np.eye(8) + np.ones((8, 8)), x) + TABLE[:8] * 2)
f(np.arange(8.0))
"""


def test_every_dumped_stage_is_read_back_with_the_constants_that_passes_made(tmp_path):
    folders = {"BROADLOOM_DUMP": str(tmp_path / "dump"), "BROADLOOM_CACHE_DIR": str(tmp_path / "cache")}
    assert run_python(FOLDED, **folders).returncode == 0
    (folder,) = (tmp_path / "dump").iterdir()
    stages = sorted(f for f in folder.iterdir() if f.suffix in (".graph", ".loops"))
    assert len(stages) > 4
    assert "sha256:" in stages[-2].read_text() and stages[-1].suffix == ".loops"
    for stage in (stages[0], stages[len(stages) // 2], stages[-2], stages[-1]):
        done = broadloom("opt", stage, "--to", "llvm")
        assert "bl_run" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("graph f {\n}\n", ["x.graph", "--pipeline", "nonsense"]),
        ("graph f {\n  %0 = input x: float64[\n}\n", ["x.graph"]),
        ("", ["missing.graph"]),
    ],
)
def test_opt_says_what_is_wrong_in_one_line(tmp_path, text, arguments):
    (tmp_path / "x.graph").write_text(text)
    done = broadloom("opt", *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("broadloom: ") and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["012_fusion.txt", "013_module.ll"])
def test_opt_says_which_stages_can_be_read_back(tmp_path, name):
    (tmp_path / name).write_text("no graph\n")
    done = broadloom("opt", name, folder=tmp_path)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    for words in ("cannot be read back", name, "*.graph and *.loops"):
        assert words in done.stderr


# ---- refusals ---------------------------------------------------------------------------------------------------


class Switch:
    def __init__(self):
        self.on = True


SWITCH = Switch()


def breaks_while_switched_on(x):
    return x + np.random.rand() * 0 if SWITCH.on else x + 1


def test_refusal_is_forgotten_when_its_guards_fail(monkeypatch):
    compiled = bl.compile(breaks_while_switched_on)
    with pytest.warns(UserWarning, match="plain Python"):
        compiled(np.ones(3))
    compiled(np.ones(3))
    assert len(compiled.report().breaks) == 1 and sum(s.count for s in compiled.report().skips) == 1
    monkeypatch.setattr(SWITCH, "on", False)
    np.testing.assert_array_equal(compiled(np.ones(3)), [2, 2, 2])
    assert len(compiled.report().compiles) == 1


def test_bad_shapes_do_not_spoil_good_ones():
    compiled = bl.compile(lambda x, y: x + y)
    with pytest.warns(UserWarning), pytest.raises(ValueError):
        compiled(np.zeros(3), np.zeros(4))
    compiled(np.zeros(3), np.zeros(3))
    assert len(compiled.report().compiles) == 1


def test_one_place_that_always_breaks_is_tried_a_few_times_only():
    compiled = bl.compile(branches_on_data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(1, 12):
            compiled(np.ones(n))
    report = compiled.report()
    assert len(report.breaks) == 4
    assert sum(s.count for s in report.skips) == 7


@dataclass(frozen=True, slots=True)
class Failing:
    """A pass with a defect."""

    name: ClassVar[str] = "failing"

    def run(self, graph, context):
        raise ZeroDivisionError("a defect")


def test_defect_of_a_pass_falls_back_on_the_plain_function():
    compiled = bl.compile(lambda x: x + 1, options={"passes": (Failing(),), "use_cache": False})
    with pytest.warns(UserWarning, match=r"internal: ZeroDivisionError in .*: a defect; report it"):
        np.testing.assert_array_equal(compiled(np.zeros(2)), [1, 1])
    np.testing.assert_array_equal(compiled(np.zeros(2)), [1, 1])
    report = compiled.report()
    assert [b.code for b in report.breaks] == ["internal"] and report.compiles == ()
    with pytest.raises(GraphBreakError, match="a defect") as raised:
        bl.compile(lambda x: x, fullgraph=True, options={"passes": (Failing(),), "use_cache": False})(np.zeros(2))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
