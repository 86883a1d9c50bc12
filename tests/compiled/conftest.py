"""Every test runs on memory with red zones."""

from __future__ import annotations

from tests.red_zones import red_zones

__all__ = ["red_zones"]
