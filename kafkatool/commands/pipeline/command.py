"""`kafkatool pipeline`: the logs of many brokers as tables, run after run."""

from __future__ import annotations

from kafkatool.commands.line.command_line import epilog

# In the order of `kafkatool pipeline --help`; each is a module in this package.
SUBCOMMANDS = {
    "run": "Audit log directories into Parquet tables, on Spark.",
    "collect": "Do a broker's part of that on the broker, without Spark.",
    "report": "Summarise an audit, or compare two.",
}
HELP = """Audit the logs of many brokers into Parquet tables, run after run, and compare two runs."""
EPILOG = epilog(
    {
        "kafkatool pipeline collect -o /srv/parts/b1 b1=/var/lib/kafka/data": "on every broker",
        "kafkatool pipeline run -o /srv/lake /srv/parts/*": "the parts of all brokers together",
        "kafkatool pipeline report /srv/lake": "what needs attention",
    },
    4,
    5,
)
