"""Generated kernels touch no byte outside of their arrays."""

from __future__ import annotations

import subprocess
import sys


def test_no_kernel_leaves_its_arrays(seed):
    command = [sys.executable, "-m", "tests.compiled.guard_pages", str(seed)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, f"{run.returncode} after {run.stdout.splitlines()[-1:]}\n{run.stderr[-2000:]}"
