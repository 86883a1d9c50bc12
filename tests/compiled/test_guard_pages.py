"""Generated kernels touch no byte outside of their arrays."""

from __future__ import annotations

import subprocess
import sys

import pytest

DAILY = {"functions": 9, "ops": 6, "updates": 9}
FULL = {"functions": 24, "ops": 300, "updates": 500}


@pytest.mark.parametrize("part", DAILY)
def test_no_kernel_leaves_its_arrays(part, seed, request):
    count = (FULL if request.config.getoption("--full") else DAILY)[part]
    command = [sys.executable, "-m", "tests.compiled.guard_pages", part, str(seed), str(count)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120 + 10 * count)
    assert run.returncode == 0, f"{run.returncode} after {run.stdout[-3000:]}\n{run.stderr[-2000:]}"
