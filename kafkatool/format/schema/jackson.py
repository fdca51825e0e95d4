"""Write JSON as Kafka's tools print it: trees through their layout, then text in the style of Jackson.

No spaces; `"`, backslash and control characters escaped, with capital hex digits, and nothing else; bytes in
base64 with padding; NaN and the infinities in quotes.
"""

from __future__ import annotations

import re
from base64 import b64encode
from json.encoder import encode_basestring
from math import isfinite
from typing import cast

from kafkatool.format.java_values import java_double
from kafkatool.format.schema.layout import Layout, Slot, Tree

_ESCAPE = re.compile(r"\\(?:\\|u00..)")


def as_json(layout: Layout, tree: Tree) -> Tree:
    """Return the object Kafka's converter makes: the layout's fields, tagged ones unless default."""
    return {
        slot.name: _value(slot, tree.get(slot.name, slot.default))
        for slot in layout.slots
        if slot.field.tag is None or tree.get(slot.name, slot.default) != slot.default
    }


def _value(slot: Slot, value: object) -> object:
    layout = slot.layout
    if layout is None or value is None:
        return value
    if slot.field.array:
        return [as_json(layout, element) for element in cast(list[Tree], value)]
    return as_json(layout, cast(Tree, value))


def json_text(value: object) -> str:
    """Write a value as Jackson's ObjectNode.toString does; field names need no escapes."""
    kind = type(value)
    if kind is int:
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join([f'"{name}":{json_text(item)}' for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, bytes):
        return f'"{b64encode(value).decode()}"'
    if isinstance(value, float):
        return java_double(value) if isfinite(value) else f'"{java_double(value)}"'
    return "null" if value is None else str(value).lower()


def _quoted(text: str) -> str:
    quoted = encode_basestring(text)
    if "\\u" in quoted:
        # Python uses lower-case hex; escaped backslashes are matched so that they are left alone.
        quoted = _ESCAPE.sub(
            lambda found: "\\u" + found[0][2:].upper() if len(found[0]) > 2 else found[0], quoted
        )
    return quoted
