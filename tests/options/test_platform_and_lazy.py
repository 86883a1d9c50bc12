"""The facts about the machine, and imports that wait."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broadloom import platform
from broadloom.lazy import LazyModule, cython_blas, scipy_special


def test_this_machine_is_described() -> None:
    facts = {f.name: f for f in platform.describe()}
    assert facts["python"].value.endswith(".".join(map(str, sys.version_info[:3])))
    assert platform.page_size() >= 4096 and platform.page_size().bit_count() == 1
    assert 1 <= platform.cpu_count() <= len(os.sched_getaffinity(0))
    assert platform.unsupported() == tuple(f for f in facts.values() if not f.ok)


def test_what_is_not_supported_names_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "is_free_threaded", lambda: True)
    monkeypatch.setattr(sys, "byteorder", "big")
    found = {f.name: f.remedy for f in platform.unsupported()}
    assert found["build"] and found["words"]


def test_affinity_is_respected() -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
    program += "from broadloom import platform; print(platform.cpu_count())"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max 100000", None), ("150000 100000", 2), ("10000 100000", 1), ("", None), ("x y", None), ("1 0", None)],
)
def test_container_quota(tmp_path: Path, text: str, expected: int | None) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(text)
    assert platform._cpu_quota(path) == expected
    assert platform._cpu_quota(tmp_path / "absent") is None


def test_caches_are_read_by_level_and_kind(tmp_path: Path) -> None:
    described = [("Data", "1", "48K"), ("Instruction", "1", "32K"), ("Unified", "2", "1024K"), ("Unified", "3", "32M")]
    for number, words in enumerate(described):
        (tmp_path / f"index{number}").mkdir()
        for name, word in zip(("type", "level", "size"), words, strict=True):
            (tmp_path / f"index{number}" / name).write_text(word + "\n")
    assert platform.caches_in(tmp_path) == platform.Caches(48 << 10, 1 << 20, 32 << 20)
    (tmp_path / "index3" / "size").write_text("all of it\n")  # what cannot be read is left out
    (tmp_path / "index0" / "size").unlink()
    assert platform.caches_in(tmp_path) == platform.Caches(32 << 10, 1 << 20, 8 << 20)


def test_heavy_imports_wait_for_their_first_use() -> None:
    program = (
        "import sys; from broadloom import lazy, options, trace, symbolic;"
        "heavy = {'scipy', 'rich', 'jinja2'} & set(sys.modules); assert not heavy, heavy;"
        "assert lazy.scipy_special.erf(0.0) == 0; assert 'scipy.special' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_lazy_module_is_the_module() -> None:
    assert scipy_special.load() is sys.modules["scipy.special"]
    assert "dgemm" in cython_blas.__pyx_capi__ if hasattr(cython_blas, "__pyx_capi__") else cython_blas.load()
    assert copy.copy(scipy_special) == scipy_special


def test_a_missing_module_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="pip install nothing-at-all"):
        LazyModule("broadloom_absent", "nothing-at-all").anything  # noqa: B018
