"""Hide the secrets of the metadata log: passwords in their several forms.

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

# Kafka's configs of type PASSWORD, with or without a listener prefix, and common names in plugins.
SENSITIVE_CONFIG = re.compile(
    r"password|passphrase|secret|jaas|credential|private[._-]?key|access[._-]?key|api[._-]?key|"
    r"keystore\.(key|certificate\.chain)|truststore\.certificates",
    re.IGNORECASE,
)


def redact(name: str, tree: Tree) -> Tree:
    """Return the message without its secrets; the tree itself is not changed."""
    secret = SECRET_FIELDS.get(name, frozenset())
    if name == "ConfigRecord" and SENSITIVE_CONFIG.search(cast(str, tree["name"])):
        secret = frozenset({"value"})
    return {
        field: REDACTED if field in secret and value is not None else value for field, value in tree.items()
    }


def redact_row(row: Tree) -> Tree:
    """Return a record's row with the secrets in its `value` hidden."""
    value = row.get("value")
    if not isinstance(value, dict):
        return row
    return {**row, "value": redact(cast(str, row["type"]), value)}
