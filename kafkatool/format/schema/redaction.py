"""What must not be shown of the metadata log: passwords in their several forms.

Kafka stores SCRAM salts and keys, the ids of delegation tokens and sensitive configs there in the clear.
"""

from __future__ import annotations

import re
from typing import cast

from kafkatool.format.schema.layout import Tree

REDACTED = "<redacted>"

SECRET_FIELDS = {
    "UserScramCredentialRecord": frozenset({"salt", "storedKey", "serverKey"}),
    "DelegationTokenRecord": frozenset({"tokenId"}),
    "RemoveDelegationTokenRecord": frozenset({"tokenId"}),
}

# Kafka's configs of type PASSWORD, with or without a listener's prefix, and what plugins call theirs.
SENSITIVE_CONFIG = re.compile(
    r"password|passphrase|secret|jaas|credential|private[._-]?key|access[._-]?key|api[._-]?key|"
    r"keystore\.(key|certificate\.chain)|truststore\.certificates",
    re.IGNORECASE,
)


def redact(name: str, tree: Tree) -> Tree:
    """The message without its secrets; the tree itself is left as it is."""
    secret = SECRET_FIELDS.get(name, frozenset())
    if name == "ConfigRecord" and SENSITIVE_CONFIG.search(cast(str, tree["name"])):
        secret = frozenset({"value"})
    return {
        field: REDACTED if field in secret and value is not None else value for field, value in tree.items()
    }


def redact_row(row: Tree) -> Tree:
    """The same for a record's row: its `value` without secrets."""
    value = row.get("value")
    if not isinstance(value, dict):
        return row
    return {**row, "value": redact(cast(str, row["type"]), value)}
