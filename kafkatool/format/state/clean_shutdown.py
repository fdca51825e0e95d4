"""`.kafka_cleanshutdown`: this log directory was shut down cleanly.

    {"version":0,"brokerEpoch":17}        one line of JSON without a line end, from 3.7 on; empty before

Only the file's presence matters. Its content lets the controller trust the directory; a broker that cannot
read it goes on with an unknown epoch, and so does this reader: it never fails.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from kafkatool.format.java_text import LONG_MAX, LONG_MIN
from kafkatool.format.primitives import Buffer


class CleanShutdown(NamedTuple):
    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(buf: Buffer) -> CleanShutdown:
    """Decode the marker; fields that cannot be read are None."""
    try:
        value, _end = json.JSONDecoder().raw_decode(bytes(buf).decode("utf-8").lstrip())
    except (ValueError, RecursionError):
        return CleanShutdown(None, None)
    if not isinstance(value, dict):
        return CleanShutdown(None, None)
    return CleanShutdown(_number(value.get("version", 0)), _number(value.get("brokerEpoch")))


def write_clean_shutdown(broker_epoch: int) -> bytes:
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and LONG_MIN <= value <= LONG_MAX:
        return value
    return None
