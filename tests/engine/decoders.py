"""Decoders of somebody else's, as commands to run."""

from __future__ import annotations

import shlex
import sys

READ = """
import struct, sys
put = sys.stdout.buffer
def read():
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        sys.exit(0)
    size = struct.unpack(">i", head)[0]
    return None if size < 0 else sys.stdin.buffer.read(size)
def write(field):
    put.write(struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field)
"""
UPPER = (
    READ
    + """
while True:
    key, value = read(), read()
    write(key)
    write(None if value is None else value.upper())
    put.flush()
"""
)


def command(script: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}"
