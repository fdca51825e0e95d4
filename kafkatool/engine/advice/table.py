"""Every advice that the program can print, in one table.

An advice is a command for the user to run next. It can be pasted: a name in braces is filled in and quoted;
a name in angle brackets is for the user to fill in, and a shell refuses it as it is. Following one to the
letter loses no acknowledged record: `tests/kafka/advising/test_advice.py` sets up the situation of each,
follows it and compares the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, unique

from kafkatool.engine.advice.shell_words import quoted

HOST = "<HOST:PORT>"


class Placeholder(str):
    """A name that the user fills in: it is shown unquoted."""

    __slots__ = ()


@unique
class Advice(Enum):
    """The name of each advice, and its text."""

    # --- look ---------------------------------------------------------------------------------------------
    LIST = "kafkatool ls {where}"
    LIST_SPACE = "kafkatool ls --space {where}"
    VERIFY = "kafkatool verify -v {where}"
    SHOW_FILE = "kafkatool dump-log --format ndjson {file}"
    SHOW_RECORDS = "kafkatool dump-log --print-data-log {file}"
    SHOW_LARGE_BATCH = "kafkatool dump-log --max-batch-size 1G --print-data-log {file}"
    SHOW_FROM = "kafkatool dump-log --from {offset} {where}"
    FREE_SPACE = "kafkatool retention --free <SIZE> {where}"
    AUDIT = "kafkatool pipeline run --out {lake} <PATH>"

    # --- plan, and undo -----------------------------------------------------------------------------------
    RECOVER = "kafkatool recover {where}"
    RECOVER_KEEPING = "kafkatool recover --keep-after-damage <DIR> {where}"
    RECOVER_MENDING = "kafkatool recover --mend-bits {where}"
    RECOVER_NOW = "kafkatool recover --apply {where}"
    REBUILD_INDEX = "kafkatool rebuild-index {where}"
    REBUILD_FORCED = "kafkatool rebuild-index --force {file}"
    UNDO = "kafkatool {command} --apply --undo {journal} {backup_dirs}"
    SHOW_UNDO = "kafkatool {command} --undo {journal}"

    SET_ASIDE = (
        f"kafka-topics.sh --bootstrap-server {HOST} --describe | "
        "kafkatool set-aside {where} --move-to <DIR> --describe -"
    )

    SET_ASIDE_COPY = "kafkatool set-aside {where} --second-copy {other} --move-to <DIR>"

    # --- files of a broker that is down -------------------------------------------------------------------
    DO_WITHOUT = "mv -n {file} {file}.bad"
    FORGET_VOTE = (
        f"kafka-metadata-quorum.sh --bootstrap-server {HOST} describe --status && mv -n {{file}} {{file}}.bad"
    )
    MOVE_OUT = "mv -n {file} <DIR>"
    MOVE_COPY_HOME = "mv -n {where} {home}"
    WRITE_TOPIC_ID = "printf 'version: 0\\ntopic_id: %s' {topic_id} > {file}"
    WRITE_OWNER = (
        "printf 'version=1\\ncluster.id=%s\\nnode.id=%s\\ndirectory.id=%s\\n' "
        "{cluster} {node} {directory} > {file}"
    )
    FORMAT = "kafka-storage.sh format --ignore-formatted -t {cluster} -c {config}"

    # --- its host -----------------------------------------------------------------------------------------
    OWN_DIRECTORY = "chown -R {user} {where}"
    OWN_JOURNAL = "chown --reference={where} {file}"
    OPEN_WAY = "chmod a+x {where}"
    HIDE_SECRET = "chmod 600 {file}"
    RAISE_NOFILE = "ulimit -n {number}  # before the broker starts, or LimitNOFILE={number} in its unit"
    RAISE_MAPS = "sysctl -w vm.max_map_count={number}"
    REMOUNT = "mount -o remount,{option} {where}"
    REMOUNT_WRITABLE = "dmesg | tail  # an error may be why; then mount -o remount,rw {where}"

    # --- a running cluster --------------------------------------------------------------------------------
    SET_CONFIG = (
        f"kafka-configs.sh --bootstrap-server {HOST} --alter --entity-type topics --entity-name {{topic}} "
        "--add-config {setting}"
    )
    UNSET_CONFIG = (
        f"kafka-configs.sh --bootstrap-server {HOST} --alter --entity-type topics --entity-name {{topic}} "
        "--delete-config {setting}"
    )

    DESCRIBE = f"kafka-topics.sh --bootstrap-server {HOST} --describe > <FILE>"
    DESCRIBE_TOPIC = f"kafka-topics.sh --bootstrap-server {HOST} --describe --topic {{topic}}"
    REASSIGN = (
        f"kafka-reassign-partitions.sh --bootstrap-server {HOST} --execute "
        "--reassignment-json-file /dev/stdin <<< {plan}"
    )
    DELETE_RECORDS = (
        f"kafka-delete-records.sh --bootstrap-server {HOST} --offset-json-file /dev/stdin <<< {{plan}}"
    )
    ABORT_TRANSACTION = (
        f"kafka-transactions.sh --bootstrap-server {HOST} abort --topic {{topic}} --partition {{partition}} "
        "--start-offset {offset}"
    )
    FIND_HANGING = (
        f"kafka-transactions.sh --bootstrap-server {HOST} find-hanging --topic {{topic}} "
        "--partition {partition}"
    )
    TERMINATE_TRANSACTION = (
        f"kafka-transactions.sh --bootstrap-server {HOST} forceTerminateTransaction "
        "--transactionalId {transactional_id}  # Kafka 4.1 and later"
    )

    def __call__(self, **values: object) -> str:
        """Fill in the names; each of several words is quoted."""
        words = {name: _words(value) for name, value in values.items()}
        return self.value.format_map(words).rstrip()


def is_a_plan(text: str) -> bool:
    """Return whether this advice shows a plan, and changes something only if --apply is added."""
    plans = (Advice.RECOVER, Advice.REBUILD_INDEX, Advice.SET_ASIDE, Advice.SET_ASIDE_COPY)
    return text.startswith(tuple(one.value.partition("{")[0] for one in plans)) and " --apply" not in text


def _words(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return " ".join(map(_words, value))
    return value if isinstance(value, Placeholder) else quoted(value)
