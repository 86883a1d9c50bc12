"""The machines that generated code is tested for, and memory with red zones for every test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broadloom.runtime.target import host
from tests.red_zones import red_zones

from . import programs
from .programs import FEATURES

__all__ = ["machine", "red_zones"]


@pytest.fixture(params=sorted(FEATURES))
def machine(request, monkeypatch):
    """Programs are compiled for this one, by its name in `FEATURES`."""
    target = replace(host(), features=FEATURES[request.param])
    monkeypatch.setattr(programs, "host", lambda: target)
    return request.param
