"""Write the tables of messages, and the page on how they changed, from the definitions in Kafka's jars.

    python -m tests.kafka.make_schemas        write what has changed, and name it

Which messages, and which versions of them: `making/message_choice.py`.
"""

from __future__ import annotations

from pathlib import Path

from tests.kafka.making.message_changes import changes_page
from tests.kafka.making.message_tables import protocol_table, tables
from tests.places import ROOT

SCHEMA_TABLES = ROOT / "kafkatool/format/schema/tables"
PROTOCOL_TABLE = ROOT / "kafkatool/format/protocol/tables.py"
CHANGES = ROOT / "docs/message-changes.md"

_MODULE = """\
\"""Written by `make schemas` from the definitions in Kafka's jars.\"""

TABLE = \"""
{}
\"""
"""


def table_modules() -> dict[Path, str]:
    """Every module of tables, with its text."""
    modules = {SCHEMA_TABLES / f"{name}.py": table for name, table in tables().items()}
    modules[PROTOCOL_TABLE] = protocol_table()
    return {path: _MODULE.format(table) for path, table in modules.items()}


def main() -> None:
    for path, text in {**table_modules(), CHANGES: changes_page()}.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
