"""Our decoders against those of every Kafka release: the same bytes, the same text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkatool.format.batch import CONTROL_MASK, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import Release
from kafkatool.format.schema import Decoder, DecoderThrows, control_text, decode_text
from kafkatool.format.schema.control import MESSAGES, write_control, write_end_marker
from kafkatool.format.schema.layout import value_layout
from tests.format.schema.samples import Sample, random_tree, samples
from tests.kafka import peers
from tests.kafka.dump_tool import DumpTool, Result, shared

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("dump tool")]

CASES = [
    (version, decoder)
    for version in peers.RELEASES
    for decoder in Decoder
    if (version, decoder) != (peers.OLDEST, Decoder.SHARE_GROUP_STATE)  # it has no such flag
]


@pytest.fixture(params=peers.RELEASES)
def version(request: pytest.FixtureRequest) -> str:
    peers.require_kafka(request.param)
    chosen: str = request.param
    return chosen


@pytest.mark.parametrize(("version", "decoder"), CASES)
def test_every_record_type_reads_as_in_kafka(version: str, decoder: Decoder, tmp_path: Path) -> None:
    peers.require_kafka(version)
    _compare(version, decoder, samples(decoder, Release.parse(version), 2, random.Random(3)), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("version", "decoder"), CASES)
def test_many_records_read_as_in_kafka(version: str, decoder: Decoder, seed: int, tmp_path: Path) -> None:
    peers.require_kafka(version)
    _compare(version, decoder, samples(decoder, Release.parse(version), 100, random.Random(seed)), tmp_path)


def test_a_record_of_another_release_reads_as_in_kafka(version: str, tmp_path: Path) -> None:
    for decoder in Decoder:
        if (version, decoder) in CASES:
            newest = samples(decoder, max(Release), 1, random.Random(1))
            oldest = samples(decoder, Release.V4_0, 1, random.Random(2))
            _compare(version, decoder, [*newest, *oldest], tmp_path)


def test_a_missing_key_ends_the_tool(version: str, tmp_path: Path) -> None:
    for decoder in (Decoder.OFFSETS, Decoder.TRANSACTION_LOG, Decoder.SHARE_GROUP_STATE):
        if (version, decoder) in CASES:
            _compare(version, decoder, [Sample(None, b"x"), Sample(None, None)], tmp_path)


def test_control_records_read_as_in_kafka(version: str, tmp_path: Path) -> None:
    release = Release.parse(version)
    good = []
    for sample in _control_samples(random.Random(4)):
        try:
            good.append((sample, control_text(release, *sample)))
        except DecoderThrows:
            result = _dump(shared(version), tmp_path, [sample], CONTROL_MASK, "--deep-iteration")
            assert result.exception, sample
    result = _dump(
        shared(version), tmp_path, [sample for sample, _ in good], CONTROL_MASK, "--deep-iteration"
    )
    assert result.exception is None
    _equal_lines(result, [_metadata(offset, *pair) for offset, pair in enumerate(good)], good)


def _control_samples(rng: random.Random) -> Iterator[Sample]:
    for _ in range(20):
        yield Sample(*write_end_marker(rng.random() < 0.5, rng.randrange(-5, 50)))
        for kind, message in MESSAGES.items():
            tree = random_tree(value_layout(message, 0), rng)
            whole = Sample(*write_control(kind, {**tree, "version": rng.choice((-1, 0, 0, 1, 2))}))
            yield whole
            assert whole.value is not None
            yield Sample(whole.key, whole.value[: rng.randrange(len(whole.value))])
            yield Sample(whole.key, whole.value + b"x")
    for key in ("", "0000", "00000007", "0000ffff", "ffff0001", "00050001", "0000000100"):
        yield Sample(bytes.fromhex(key), bytes.fromhex("00000000000a"))
    for value in ("", "0000", "0000000000", "ffff00000001", "000900000001ff"):
        yield Sample(bytes.fromhex("00000001"), bytes.fromhex(value))
    yield Sample(None, None)
    yield Sample(bytes.fromhex("00000001"), None)
    yield Sample(bytes.fromhex("00000003"), None)


def _compare(version: str, decoder: Decoder, records: Iterable[Sample], directory: Path) -> None:
    """Records the tool can read go into one file; each that ends it is a file of its own."""
    release = Release.parse(version)
    tool = shared(version)
    flag = f"--{decoder}-decoder"
    good: list[tuple[Sample, str]] = []
    for sample in records:
        try:
            key, payload = decode_text(decoder, release, len(good), *sample)
        except DecoderThrows:
            assert _dump(tool, directory, [sample], 0, flag).exception, sample
            continue
        text = "" if key is None else f" key: {key}"
        good.append((sample, text if payload is None else f"{text} payload: {payload}"))
    result = _dump(tool, directory, [sample for sample, _ in good], 0, flag)
    assert result.exception is None, result.exception
    _equal_lines(result, [_metadata(offset, *pair) for offset, pair in enumerate(good)], good)


def _metadata(offset: int, sample: Sample, text: str) -> str:
    sizes = [-1 if part is None else len(part) for part in sample]
    return (
        f"| offset: {offset} CreateTime: -1 keySize: {sizes[0]} valueSize: {sizes[1]} "
        f"sequence: -1 headerKeys: []{text}\n"
    )


def _dump(tool: DumpTool, directory: Path, records: list[Sample], attributes: int, flag: str) -> Result:
    path = directory / "00000000000000000000.log"
    path.write_bytes(write_batch([NewRecord(*sample) for sample in records], attributes=attributes))
    return tool.run(["--files", path, flag])


def _equal_lines(result: Result, expected: list[str], records: list[tuple[Sample, str]]) -> None:
    text = result.stdout.decode().partition("\n")[2].partition("\n")[2].partition("\n")[2]
    if text == "".join(expected):
        return
    for line, (sample, _) in zip(expected, records, strict=True):
        assert text.startswith(line), (sample, line, text[: len(line) + 200])
        text = text[len(line) :]
    assert not text
