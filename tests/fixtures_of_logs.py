"""Every partition directory among the fixtures."""

from __future__ import annotations

from tests.places import FIXTURES

LOG_DIRECTORIES = sorted({path.parent for path in FIXTURES.rglob("*.log")})
