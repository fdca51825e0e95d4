"""The two checksums of Kafka's files.

crc32c   CRC-32C: batches of magic 2, producer snapshots
crc32    zlib's CRC-32: messages of magic 0 and 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from kafkatool.format.kernel import chosen

if TYPE_CHECKING or chosen is None:
    from crc32c import crc32c
else:
    from kafkatool.format.kernel.compiled import crc32c

__all__ = ["crc32", "crc32c"]
