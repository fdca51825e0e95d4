"""`kafkatool bench`: measure appends, reads and lookups on the volume where a broker will do them."""

from __future__ import annotations

from kafkatool.commands.line.command_line import epilog

# In the order of `kafkatool bench --help`; each is a module in this package.
SUBCOMMANDS = {
    "append": "Write real batches to real logs, and the bare disk beside it.",
    "read": "Read a log back, cold and warm, by every way to a socket.",
    "lookup": "Look up offsets and times in logs of growing size.",
    "compare": "What changed between two results by more than noise.",
}
HELP = """Measure Kafka's log on this machine and this disk, without a broker around it.

Everything is written to a directory of its own, a tenth of the volume always stays free, only files of the
benchmark are evicted, and all of them are removed at the end unless --keep is given."""
EPILOG = epilog(
    {
        "kafkatool bench append -o before.json /mnt/kafka/bench": "measure appends to this volume",
        "kafkatool bench read /mnt/kafka/bench": "measure reading it back",
        "kafkatool bench compare before.json after.json": "what a change improved or made worse",
    },
    5,
)
