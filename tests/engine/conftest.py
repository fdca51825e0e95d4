from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.cold import make_cold_file


@pytest.fixture
def cold_file(tmp_path: Path) -> Path:
    """Four mebibytes on a disk, none of it in memory."""
    return make_cold_file(tmp_path, 4 << 20)
