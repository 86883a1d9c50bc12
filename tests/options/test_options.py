"""Options from the environment and from the caller: right values, and an error for every kind of nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest

from broadloom.errors import OptionsError
from broadloom.options import LOG_TOPICS, VARIABLES, Options
from broadloom.trace import EVENTS


def test_every_variable_is_read() -> None:
    options = Options.from_environment(
        {
            "BROADLOOM_TRACE": "/tmp/t",
            "BROADLOOM_LOGS": "guards, fusion",
            "BROADLOOM_DUMP": "~/d",
            "BROADLOOM_CACHE_DIR": "c",
            "BROADLOOM_NUM_THREADS": "3",
            "PATH": "/bin",
        }
    )
    assert options.trace_dir == Path("/tmp/t")
    assert options.logs == {"guards", "fusion"}
    assert options.dump_dir == Path.home() / "d"
    assert options.cache_dir == Path("c")
    assert options.num_threads == 3


def test_empty_variables_count_as_not_set() -> None:
    home = {"HOME": "/home/a"}
    assert Options.from_environment({**home, **dict.fromkeys(VARIABLES, " ")}) == Options.from_environment(home)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/broadloom"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/x"}, "/x/broadloom"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "relative"}, "/home/a/.cache/broadloom"),
    ],
)
def test_default_cache_folder_follows_xdg(environ: dict[str, str], expected: str) -> None:
    assert Options.from_environment(environ).cache_dir == Path(expected)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("BROADLOOM_NUM_THREADS", "0", "1 to 1024"),
        ("BROADLOOM_NUM_THREADS", "-2", "1 to 1024"),
        ("BROADLOOM_NUM_THREADS", "many", "1 to 1024"),
        ("BROADLOOM_NUM_THREADS", "2.5", "1 to 1024"),
        ("BROADLOOM_NUM_THREADS", "9" * 5000, "1 to 1024"),
        ("BROADLOOM_NUM_THREADS", "٣", "1 to 1024"),
        ("BROADLOOM_LOGS", "guards,fusoin", "did you mean fusion"),
        ("BROADLOOM_LOGS", "zzz", "remove 'zzz'"),
        ("BROADLOOM_NUM_THREAD", "2", "did you mean BROADLOOM_NUM_THREADS"),
        ("BROADLOOM_QQQ", "", "unset it"),
        ("BROADLOOM_TRACE", "a\0b", "a folder"),
    ],
)
def test_nonsense_in_the_environment_is_named(variable: str, value: str, said: str) -> None:
    with pytest.raises(OptionsError) as caught:
        Options.from_environment({variable: value})
    message = str(caught.value)
    assert variable in message and said in message and "allowed" in message and "remedy" in message
    assert repr(value) in message


def test_a_caller_s_options_replace_the_environment_s() -> None:
    options = Options().replace(contract=True, release_gil_us=5, trace_dir="/tmp/t", logs=["guards"], num_threads=1)
    assert options.contract is True
    assert type(options.release_gil_us) is float
    assert options.trace_dir == Path("/tmp/t")
    assert options.logs == frozenset({"guards"})
    assert options.replace(trace_dir=None).trace_dir is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("contract", 1),
        ("fusion", "yes"),
        ("num_threads", True),
        ("num_threads", 0),
        ("num_threads", 1 << 20),
        ("release_gil_us", float("nan")),
        ("release_gil_us", -1),
        ("max_specialisations", 0),
        ("logs", "guards"),
        ("logs", ["guard"]),
        ("logs", [[]]),
        ("cache_dir", None),
        ("cache_dir", ""),
        ("dump_dir", 3),
    ],
)
def test_nonsense_from_the_caller_is_named(name: str, value: object) -> None:
    with pytest.raises(OptionsError, match=name):
        Options().replace(**{name: value})


def test_an_unknown_option_is_named_with_the_nearest() -> None:
    with pytest.raises(OptionsError, match="did you mean deterministic"):
        Options().replace(determinstic=True)


def test_the_key_holds_what_changes_code_and_nothing_else() -> None:
    base = Options()
    same = base.replace(num_threads=1, trace_dir="/t", dump_dir="/d", use_cache=False, cache_dir="/c", logs=["guards"])
    assert same.key() == base.key()
    changed = {base.replace(**{n: not getattr(base, n)}).key() for n in ("contract", "deterministic", "fusion")}
    assert len(changed | {base.key()}) == 4


def test_every_event_has_a_topic_that_can_be_logged() -> None:
    assert {e.topic for e in EVENTS} == LOG_TOPICS
