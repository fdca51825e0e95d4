"""What the metadata log beside the partitions says of a topic's settings, for those who need one or two.

Only what was set for the topic, or as the cluster's default while it ran, is in there; what stands in
server.properties is not. See `settings` for all that a topic goes by, and where each value comes from.
"""

from __future__ import annotations

import os

from kafkatool.engine.cluster_view import BROKER_RESOURCE, TOPIC_RESOURCE, read_cluster_view
from kafkatool.engine.config import keys_of
from kafkatool.engine.logdir import read_partition
from kafkatool.engine.settings import topic_name_of
from kafkatool.engine.source import Guest
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format.names import METADATA_PARTITION
from kafkatool.format.release import NEWEST

Settings = dict[str, dict[str, str]]


def topic_settings(log_dir: str, guest: Guest) -> Settings:
    """Topic to settings, by Kafka's names; `""` holds the cluster's defaults. Empty without metadata."""
    try:
        partition = read_partition(os.path.join(log_dir, METADATA_PARTITION), [], guest)
    except KafkatoolError:
        return {}
    view = read_cluster_view([partition], guest)
    found = {name: values for (kind, name), values in view.settings.items() if kind == TOPIC_RESOURCE}
    defaults = view.settings.get((BROKER_RESOURCE, ""), {})
    found[""] = {topic_name_of(name): value for name, value in defaults.items()}
    return found


def setting(settings: Settings, topic: str | None, name: str) -> str | None:
    """One setting of a topic, or the cluster's default; None where neither is set."""
    own = settings.get(topic or "", {}).get(name)
    return settings.get("", {}).get(name) if own is None else own


def number_setting(settings: Settings, topic: str | None, name: str) -> int:
    """A whole number, or Kafka's default. Raises KafkatoolError where the metadata say nonsense."""
    text = setting(settings, topic, name)
    key = keys_of(NEWEST)[name]
    try:
        return key.read_integer(str(key.default) if text is None else text)
    except UsageError as error:
        raise KafkatoolError(f"the metadata beside it say {error}; --set {name}=VALUE goes before") from None


def is_tiered(settings: Settings, topic: str | None) -> bool:
    """Whether a topic's older segments are in remote storage, as far as the settings say."""
    is_on = (setting(settings, topic, "remote.storage.enable") or "").strip().lower() == "true"
    return is_on and "compact" not in (setting(settings, topic, "cleanup.policy") or "")
