"""What people name becomes what there is to read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.directory.targets import (
    Expansion,
    FileTarget,
    LogDirTarget,
    PartitionTarget,
    configured_log_dirs,
    directory_target,
    expand,
)
from kafkatool.errors import UsageError
from kafkatool.format import kinds
from kafkatool.format.kinds import NamedFile
from kafkatool.format.names import FileState
from tests.engine.disk import write_mixed_log_dir, write_partition
from tests.logs import batches, write_log


def targets(*paths: object, **options: object) -> list[object]:
    found: Expansion = expand([str(path) for path in paths], **options)  # type: ignore[arg-type]
    return list(found.targets)


def test_a_file_a_partition_and_a_log_directory_are_told_apart(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    log = log_dir / "orders-0/00000000000000000000.log"
    assert targets(log, log_dir / "orders-0", log_dir) == [
        FileTarget(str(log)),
        PartitionTarget(str(log_dir / "orders-0")),
        LogDirTarget(str(log_dir)),
    ]


def test_a_log_directory_named_like_a_partition_is_a_log_directory(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "kafka-logs-0")
    assert targets(log_dir) == [LogDirTarget(str(log_dir))]


def test_a_log_directory_without_any_file_of_its_own_is_known_by_its_partitions(tmp_path: Path) -> None:
    write_partition(tmp_path / "data-1", "orders-0")
    assert targets(tmp_path / "data-1") == [LogDirTarget(str(tmp_path / "data-1"))]


def test_a_directory_of_other_programs_is_no_log_directory_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "session.conf").touch()
    assert directory_target(str(tmp_path)) is None
    (tmp_path / "empty-0").mkdir()
    assert directory_target(str(tmp_path)) == LogDirTarget(str(tmp_path))


def test_a_partition_copied_under_another_name_is_a_partition(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders-0").rename(tmp_path / "rescued")
    assert targets(tmp_path / "rescued") == [PartitionTarget(str(tmp_path / "rescued"))]


def test_an_empty_directory_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "nothing").mkdir()
    assert targets(tmp_path / "orders-0") == [PartitionTarget(str(tmp_path / "orders-0"))]
    with pytest.raises(UsageError, match="neither"):
        targets(tmp_path / "nothing")


def test_a_relative_path_stays_as_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_partition(tmp_path, "orders-0"))
    assert targets(".") == [PartitionTarget(".")]


def test_a_glob_gives_its_matches_by_name(tmp_path: Path) -> None:
    for name in ("orders-1", "orders-0", "other-0"):
        (tmp_path / name).mkdir()
    assert targets(f"{tmp_path}/orders-*") == [
        PartitionTarget(f"{tmp_path}/orders-0"),
        PartitionTarget(f"{tmp_path}/orders-1"),
    ]


def test_a_name_that_exists_is_not_a_glob(tmp_path: Path) -> None:
    odd = write_log(tmp_path, batches(1)[0], "a[0].log")
    assert targets(odd) == [FileTarget(str(odd), NamedFile(kinds.LOG, FileState.LIVE, 0))]


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*", "file/inside"])
def test_a_path_that_matches_nothing_is_an_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError):
        targets(tmp_path / path)


def test_no_path_at_all_is_an_error() -> None:
    with pytest.raises(UsageError, match="no PATH"):
        targets()


def test_each_thing_is_named_once(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.touch()
    (tmp_path / "link.log").symlink_to(file)
    assert targets(file, tmp_path / "link.log", f"{tmp_path}/*.log") == [FileTarget(str(file))]


def test_standard_input_is_a_target_where_it_makes_sense() -> None:
    assert targets("-") == [FileTarget("-")]
    with pytest.raises(UsageError, match="standard input"):
        targets("-", allow_stdin=False)
    with pytest.raises(UsageError, match="standard input"):
        targets("-", files_from="-")


@pytest.mark.parametrize(("nul", "separator"), [(False, "\n"), (True, "\0")])
def test_paths_come_from_a_file(tmp_path: Path, nul: bool, separator: str) -> None:
    names = [tmp_path / "a b.log", tmp_path / "*.log"]
    for name in names:
        write_log(tmp_path, batches(1)[0], name.name)
    listing = tmp_path / "list"
    listing.write_text(separator.join(map(str, names)) + separator)
    assert targets(files_from=str(listing), nul=nul) == [
        FileTarget(str(name), NamedFile(kinds.LOG, FileState.LIVE, 0)) for name in names
    ]


def test_an_empty_list_of_paths_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("\n")
    with pytest.raises(UsageError, match="lists no path"):
        targets(files_from=str(tmp_path / "list"))


def test_a_configuration_names_all_its_log_directories(tmp_path: Path) -> None:
    first, second = write_mixed_log_dir(tmp_path / "one"), write_mixed_log_dir(tmp_path / "two")
    (tmp_path / "meta").mkdir()
    config = tmp_path / "server.properties"
    config.write_text(f"log.dir=/not/this\nlog.dirs={first} , {second}\nmetadata.log.dir={tmp_path}/meta\n")
    assert targets(config) == [LogDirTarget(str(d)) for d in (first, second, tmp_path / "meta")]


def test_a_log_directory_that_is_gone_is_a_problem_but_not_the_end(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={write_mixed_log_dir(tmp_path / 'one')},{tmp_path}/gone\n")
    found = expand([str(config)])
    assert len(found.targets) == 1
    assert found.problems == [f"{tmp_path}/gone (named in {config}): No such file or directory"]
    config.write_text(f"log.dirs={tmp_path}/gone\n")
    with pytest.raises(UsageError, match="none of its log directories"):
        expand([str(config)])


def test_the_settings_of_log_directories_have_an_order(tmp_path: Path) -> None:
    config = tmp_path / "broker.properties"
    config.write_text("log.dir=/a\nmetadata.log.dir=/a\n")
    assert configured_log_dirs(str(config)) == ["/a"]
    config.write_text("node.id=1\n")
    assert configured_log_dirs(str(config)) == ["/tmp/kafka-logs"]


def test_meta_properties_is_a_file_and_no_configuration(tmp_path: Path) -> None:
    meta = tmp_path / "meta.properties"
    meta.write_text("version=1\n")
    assert targets(meta) == [FileTarget(str(meta))]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_listed_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir(mode=0)
    assert expand([str(tmp_path / "orders-0")]).problems
