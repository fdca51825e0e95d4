"""Run commands in one session of a cluster, and write down what they say.

    python -m tests.spark.on_cluster MASTER OUT.json < commands.json

Commands are lists of words; the session is there before they are run, and is used by all of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kafkatool.spark.session import open_session
from tests.cli import run

# A JVM that lives for minutes: what its best compiler would take, it never gives back.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICKLY = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
}


def main() -> None:
    master, out = sys.argv[1:]
    told = []
    with open_session(master, QUICKLY):
        for words in json.load(sys.stdin):
            done = run(*words)
            told.append([int(done.exit_code), done.stdout.decode(), done.stderr.decode()])
    Path(out).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
