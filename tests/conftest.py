"""What all tests share: one printed seed, the choice between the daily and the full run, and a cache of their own.

`--seed N` repeats a run; without it each run draws a new seed. Hypothesis follows the same seed.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import zlib

import hypothesis
import numpy as np
import pytest

EVERY_PYTHON = "every_python"
# bytecode, object layouts, and what joins them; NumPy's versions, too, go with Python's
VERSION_DEPENDENT = ("capture", "runtime", "compiler", "cases", "differences", "levels")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("broadloom")
    group.addoption("--seed", type=int, default=None, help="repeat the run that printed this seed")
    group.addoption("--update", action="store_true", help="rewrite the expected texts of the case files")
    group.addoption("--full", action="store_true", help="run the whole generated product instead of a sample")
    group.addoption(
        "--every-python",
        action="store_true",
        help=f"run only what depends on the Python version: {', '.join(VERSION_DEPENDENT)}, tests marked every_python",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{EVERY_PYTHON}: runs under each supported Python, not only the main one")
    config.addinivalue_line("markers", "difference(words): shows the statement of docs/differences.md that begins so")
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1 << 31)  # workers are handed the controller's
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = config.option.seed
    full = config.getoption("--full")
    hypothesis.settings.register_profile(
        "broadloom", deadline=None, max_examples=1000 if full else 100, print_blob=True, database=None
    )
    hypothesis.settings.load_profile("broadloom")
    for variable in [v for v in os.environ if v.startswith("BROADLOOM_")]:
        del os.environ[variable]
    os.environ["BROADLOOM_CACHE_DIR"] = config.broadloom_cache = tempfile.mkdtemp(prefix="broadloom-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.broadloom_cache, ignore_errors=True)


def _how_to_repeat(config: pytest.Config) -> str:
    return f"broadloom seed: {config.option.seed} (repeat with --seed {config.option.seed})"


def pytest_report_header(config: pytest.Config) -> str:
    return _how_to_repeat(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(_how_to_repeat(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--every-python"):
        return
    folders = {config.rootpath / "tests" / name for name in VERSION_DEPENDENT}
    chosen = [bool(i.get_closest_marker(EVERY_PYTHON) or folders & set(i.path.parents)) for i in items]
    config.hook.pytest_deselected(items=[i for i, take in zip(items, chosen, strict=True) if not take])
    items[:] = [i for i, take in zip(items, chosen, strict=True) if take]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number that differs by test and by run, and is the same again with the same --seed."""
    return (request.config.option.seed << 32) | zlib.crc32(request.node.nodeid.encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator seeded with `seed`."""
    return np.random.default_rng(seed)
