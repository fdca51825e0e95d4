"""The fixtures: all cases, and all partition directories."""

from __future__ import annotations

from tests.places import FIXTURES

LOG_DIRECTORIES = sorted({path.parent for path in FIXTURES.rglob("*.log")})
CASES = sorted(path for path in FIXTURES.glob("*/*") if path.is_dir())
