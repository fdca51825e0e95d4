"""Every partition directory among the fixtures."""

from __future__ import annotations

from pathlib import Path

_FIXTURES = Path(__file__).parent / "fixtures"

LOG_DIRECTORIES = sorted({path.parent for path in _FIXTURES.rglob("*.log")})
