"""The real name of a topic whose directory name was cut."""

from __future__ import annotations

from pathlib import Path

from kafkatool.engine.directory.log_dir import read_log_dir
from kafkatool.engine.directory.topic_names import real_topic_name, restore_topic_names
from kafkatool.engine.files.source import Guest
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import DirectoryState, PartitionDirectory, partition_directory
from kafkatool.format.schema import Decoder, encode_record
from tests.engine.disk import TOPIC_ID, write_mixed_log_dir, write_partition

LONG_TOPIC = "long." * 49
CUT = partition_directory(PartitionDirectory(LONG_TOPIC, 12, DirectoryState.DELETE, "0123456789abcdef" * 2))


def write_metadata(log_dir: Path, file: str) -> None:
    directory = log_dir / "__cluster_metadata-0"
    directory.mkdir()
    fields: dict[str, object] = {"name": LONG_TOPIC, "topicId": TOPIC_ID}
    _key, record = encode_record(Decoder.CLUSTER_METADATA, "TopicRecord", 0, fields)
    garbage = NewRecord(None, b"\x01\x02\xff\xff")
    (directory / file).write_bytes(write_batch([garbage, NewRecord(None, record)], base_offset=5))


def test_a_cut_name_is_restored_from_the_metadata_log(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    write_metadata(log_dir, "00000000000000000005.log")
    directory = write_partition(log_dir, CUT)
    found = read_log_dir(str(log_dir))
    restore_topic_names([found], Guest())
    assert [p.topic for p in found.partitions if p.directory == CUT] == [LONG_TOPIC]
    assert real_topic_name(str(directory), Guest()) == LONG_TOPIC


def test_a_cut_name_is_restored_from_a_snapshot_in_another_log_directory(tmp_path: Path) -> None:
    data, metadata = write_mixed_log_dir(tmp_path / "data"), write_mixed_log_dir(tmp_path / "metadata")
    write_metadata(metadata, "00000000000000000009-0000000001.checkpoint")
    write_partition(data, CUT)
    found = [read_log_dir(str(data)), read_log_dir(str(metadata))]
    restore_topic_names(found, Guest())
    assert [p.topic for p in found[0].partitions if p.directory == CUT] == [LONG_TOPIC]


def test_without_metadata_the_cut_name_stays(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    directory = write_partition(log_dir, CUT)
    found = read_log_dir(str(log_dir))
    restore_topic_names([found], Guest())
    (partition,) = [p for p in found.partitions if p.directory == CUT]
    assert partition.topic is not None
    assert LONG_TOPIC.startswith(partition.topic)
    assert partition.topic_may_be_cut
    assert real_topic_name(str(directory), Guest()) is None
