"""A directory in memory for tests that write and remove very many files: syncs cost nothing there.

Besides, ext4 is slow to create files for minutes after thousands were removed.
"""

from __future__ import annotations

import os
import shutil

_SHARED = "/dev/shm"
_ENOUGH = 1 << 30

MEMORY = _SHARED if os.path.isdir(_SHARED) and shutil.disk_usage(_SHARED).free >= _ENOUGH else None
"""A directory for `tempfile`; None for its own choice."""
