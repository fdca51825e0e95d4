"""Every advice of the table is followed to the letter, and no acknowledged record is lost.

Most are staged here, on one broker: its directory is hurt in many ways at once, and whoever is told what to do
does just that, until `doctor` has nothing more to say. Then the broker starts, and gives every record. What
needs a cluster, a transaction or an expired topic is staged beside what it is about; the mark `advice` names
what a test follows.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkatool.engine.advice import Advice
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.kafka_scripts import follow, write_scripts
from tests.kafka.librdkafka import Placed, Record

HERE = Path(__file__).parents[1]
TOPICS = ("index", "snapshot", "id", "epochs", "flip", "name")
RECORDS = 40
SEGMENT = "00000000000000000000.log"

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("advice")]

# What nobody needs a broker for, with the test that runs it.
ELSEWHERE = {
    "AUDIT": "a lake that is not there",
    "HIDE_SECRET": "a file of users that others can read",
    "INSTALL": "",
}


def followed_advices() -> set[str]:
    """The names that tests are marked with."""
    found = set()
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.advice":
                found |= {str(ast.literal_eval(argument)) for argument in node.args}
    return found


@pytest.mark.xfail(reason="written step by step", strict=False)
def test_every_advice_of_the_table_is_followed_by_a_test() -> None:
    assert {one.name for one in Advice} - followed_advices() == set()
