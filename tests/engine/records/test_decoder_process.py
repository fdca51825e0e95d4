"""A decoder of somebody else's: it may decode, die, lie, or say nothing."""

from __future__ import annotations

import os
import time

import pytest

from kafkatool.engine.records.decoder_process import DecoderFailed, DecoderProcess
from kafkatool.errors import UsageError
from tests.engine.decoders import READ, UPPER, command


def test_keys_and_values_go_through_it_and_null_is_not_empty() -> None:
    with DecoderProcess(command(UPPER)) as decoder:
        assert decoder.decode([(b"k", b"abc"), (None, b""), (b"", None)]) == [
            (b"k", b"ABC"),
            (None, b""),
            (b"", None),
        ]
        assert decoder.decode([]) == []
        assert decoder.decode([(b"x", b"y")]) == [(b"x", b"Y")]


def test_more_than_any_pipe_holds_goes_through_it() -> None:
    pairs = [(b"%d" % at, bytes([97 + at % 26]) * 5000) for at in range(2000)]
    with DecoderProcess(command(UPPER)) as decoder:
        assert decoder.decode(pairs) == [(key, value.upper()) for key, value in pairs]


def test_one_that_answers_before_it_has_read_everything_does_not_hang() -> None:
    talkative = READ + "while True:\n  a, b = read(), read()\n  write(b * 50)\n  write(b)\n  put.flush()\n"
    with DecoderProcess(command(talkative)) as decoder:
        found = decoder.decode([(b"", b"z" * 30_000)] * 30)
    assert {len(key or b"") for key, _ in found} == {1_500_000}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit(7)", "ended, exit code 7, after 0 records"),
        (READ + "read(), read(); write(b''); write(b''); put.flush()", "ended, exit code 0, after 1 records"),
        (
            READ + "read(); put.write(b'\\x80\\0\\0\\0'); put.flush(); read()",
            "answers a length of -2147483648",
        ),
        (READ + "read(); put.write(b'hello world'); put.flush(); read()", "answers a length of 1751477356"),
        (
            READ + "[read() for _ in '1234']; [write(b'1') for _ in '12345']; put.flush(); read()",
            "answers more than it was asked",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
        ("import time; time.sleep(60)", "has not answered for 0.5 s"),
    ],
)
def test_what_it_does_wrong_is_said(script: str, words: str) -> None:
    began = time.monotonic()
    decoder = DecoderProcess(command(script), timeout_s=0.5 if "sleep" in script else 50)
    with pytest.raises(DecoderFailed, match=words), decoder:
        decoder.decode([(b"k", b"v"), (b"k", b"v")])
    assert time.monotonic() - began < 50


def test_what_it_says_at_the_end_counts() -> None:
    script = UPPER.replace("sys.exit(0)", "sys.exit(3)")
    with (
        pytest.raises(DecoderFailed, match="ended with exit code 3"),
        DecoderProcess(command(script)) as decoder,
    ):
        decoder.decode([(b"k", b"v")])


@pytest.mark.parametrize("words", ["/no/such/program", "", "'unclosed"])
def test_a_program_that_is_not_there_is_a_usage_error(words: str) -> None:
    with pytest.raises(UsageError, match="cannot be started"):
        DecoderProcess(words)


def test_no_process_stays_behind() -> None:
    decoder = DecoderProcess(command("import time; time.sleep(60)"), timeout_s=0.5)
    with pytest.raises(DecoderFailed), decoder:
        decoder.decode([(b"k", b"v")])
    with pytest.raises(ProcessLookupError):
        os.kill(decoder._child.pid, 0)
