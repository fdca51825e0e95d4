"""Which calls of the dump tool are kept for a case, and the golden file made of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.goldens import FILE_NAME, Run, mask_identities, write_runs
from tests.kafka import peers
from tests.kafka.dump_tool import DIR, Result, copy_case, masked, shared
from tests.places import FIXTURES

Call = list[str]

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
_SHARE = DECODERS["__share_group_state"]

LOG_MODES: tuple[list[str], ...] = (
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--deep-iteration", "--skip-record-metadata"],
)
INDEX_MODES: tuple[list[str], ...] = ([], ["--verify-index-only"], ["--index-sanity-check"])
_DECODER_CLASS = "org.apache.kafka.tools.api.%sDecoder"

# Whole log directories: the batches of each log, once; the other modes have cases of their own.
_PLAIN = ("log-dir", "replicas")

# Values of many kilobytes: what they look like printed proves nothing that another case does not.
_BLOCKS = ("log/blocks", "odd/lz4-blocks")

# Their payloads are long: printed once is enough.
_LONG = ("consumer-offsets/4.3", "consumer-offsets/4.0", "cluster-metadata/4.3", "transaction-state/4.3")

# On an ordinary topic every decoder is wrong; on another internal topic it may take something for its own.
_WRONG = {
    "log/none-java": tuple(DECODERS.values()),
    "consumer-offsets/4.3": ("--transaction-log-decoder", _SHARE),
    "consumer-offsets/3.9": ("--print-data-log",),
    "transaction-state/4.3": ("--offsets-decoder", "--cluster-metadata-decoder"),
    "share-group-state/4.3": ("--offsets-decoder",),
    "cluster-metadata/4.3": ("--remote-log-metadata-decoder",),
    "remote-log-metadata/4.3": ("--cluster-metadata-decoder",),
}


def make_goldens(chosen: str = "*/*") -> None:
    """Run the tools of all releases over the cases that match."""
    for case in sorted(path for path in FIXTURES.glob(chosen) if path.is_dir()):
        (case / FILE_NAME).write_text(write_runs(_runs(case)))


def _runs(case: Path) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="kafkatool-golden-") as scratch:
        copy = Copy(case, Path(scratch) / "dir")
        for call in calls(case):
            yield from _merged(call, {release: copy.run(call, release) for release in releases_of(call)})


def releases_of(call: Call) -> list[str]:
    return [release for release in peers.RELEASES if not (_SHARE in call and release == peers.OLDEST)]


class Copy:
    """The tool changes what it reads: it gets a copy, made again whenever it did."""

    def __init__(self, case: Path, folder: Path) -> None:
        self._case, self._folder = case, folder
        self._refresh()

    def run(self, call: Call, release: str) -> Result:
        """What this release prints for the case as it is in the fixtures."""
        result = shared(release).run([word.replace(DIR, str(self._folder)) for word in call])
        if self._state() != self._fresh:
            shutil.rmtree(self._folder)
            self._refresh()
        return masked(result, self._folder)

    def _refresh(self) -> None:
        copy_case(self._case, self._folder)
        self._fresh = self._state()

    def _state(self) -> list[tuple[Path, int, int]]:
        found = [(path, path.stat()) for path in sorted(self._folder.rglob("*")) if path.is_file()]
        return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in found]


def _merged(call: Call, results: dict[str, Result]) -> Iterator[Run]:
    """Releases that printed the same become one run; the newest comes first."""
    alike: dict[tuple[str, str, int, bool], list[str]] = {}
    for release, result in reversed(results.items()):
        texts = mask_identities(result.stdout.decode()), mask_identities(result.stderr.decode())
        alike.setdefault((*texts, result.exit_code, result.exception is not None), []).append(release)
    for printed, releases in alike.items():
        yield Run(call, sorted(releases), *printed)


def calls(case: Path) -> Iterator[Call]:
    """Every call that is kept for this case."""
    name = f"{case.parent.name}/{case.name}"
    files = sorted(path for path in case.rglob("*") if path.is_file() and path.parent != case)
    files += sorted(case.glob("*.checkpoint"))
    logs = [path for path in files if path.suffix in (".log", ".checkpoint")]
    for path in logs:
        for mode in _modes_of_log(name, path):
            yield call_of(case, path, mode=mode)
    yield from _part_of_log(case, logs)
    for path in files if case.parent.name not in _PLAIN else ():
        if path.parent.name == "remote-log-index-cache":
            continue  # without a log beside it the tool can do nothing with an index
        if path.suffix in (".index", ".timeindex"):
            for mode in INDEX_MODES:
                yield call_of(case, path, mode=mode)
        elif path.suffix in (".txnindex", ".snapshot"):
            yield call_of(case, path)
    yield from _special(name, case, files)


def call_of(case: Path, *paths: Path, mode: list[str] | None = None) -> Call:
    return ["--files", ",".join(f"{DIR}/{path.relative_to(case)}" for path in paths), *(mode or [])]


def _modes_of_log(name: str, path: Path) -> Iterator[list[str]]:
    topic = path.parent.name.rsplit("-", 1)[0]
    if path.name == "bootstrap.checkpoint":
        topic = "__cluster_metadata"
    decoder = DECODERS.get(topic)
    if name.split("/")[0] in _PLAIN:
        yield []
        return
    if decoder:
        yield from ([], [decoder])
        if name not in _LONG:
            yield [decoder, "--skip-record-metadata"]
    elif name in _BLOCKS:
        yield from LOG_MODES[:2]
    else:
        yield from LOG_MODES
    for wrong in _WRONG.get(name, ()):
        if wrong != decoder:
            yield [wrong]


def _part_of_log(case: Path, logs: list[Path]) -> Iterator[Call]:
    """`--max-bytes` once a case: in the middle of the largest log."""
    if case.parent.name in _PLAIN:
        return
    largest = max(logs, key=lambda path: path.stat().st_size, default=None)
    if largest is not None and (size := largest.stat().st_size) > 1:
        yield call_of(case, largest, mode=["--deep-iteration", "--max-bytes", str(size * 2 // 3)])


def _special(name: str, case: Path, files: list[Path]) -> Iterator[Call]:
    if name == "log/numbers":
        yield from _decoder_classes(case, files)
    if name == "log/none-java":
        log = next(path for path in files if path.suffix == ".log")
        for kind in ("Integer", "Long", "Default"):
            yield call_of(case, log, mode=["--value-decoder-class", _DECODER_CLASS % kind])
        yield call_of(case, log, mode=["--max-bytes", str(log.stat().st_size)])
        yield call_of(case, log, mode=["--max-bytes", "0"])
    if name in ("index/segments-4.3", "compacted/cleaned-4.3"):
        logs = [path for path in files if path.suffix == ".log"]
        indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
        yield call_of(case, *logs[:3], mode=["--deep-iteration"])
        yield call_of(case, *indexes[:4], *logs[:1], mode=["--deep-iteration"])
        yield call_of(case, indexes[0], mode=["--max-message-size", "20"])
    if unknown := [path for path in files if path.suffix in (".deleted", ".cleaned", ".swap", ".metadata")][
        :2
    ]:
        yield call_of(case, *unknown)
    if name == "log/none-java":
        yield call_of(case, case / "none-java-0" / "leader-epoch-checkpoint")


def _decoder_classes(case: Path, files: list[Path]) -> Iterator[Call]:
    logs = [path for path in files if path.suffix == ".log"]
    for log, kind in zip(logs, ("Integer", "Long"), strict=True):
        decoder = _DECODER_CLASS % kind
        yield call_of(case, log, mode=["--key-decoder-class", decoder, "--value-decoder-class", decoder])
        yield call_of(case, log, mode=["--key-decoder-class", decoder, "--skip-record-metadata"])
    yield call_of(case, logs[1], mode=["--value-decoder-class", _DECODER_CLASS % "Integer"])
    yield call_of(case, logs[0], mode=["--value-decoder-class", _DECODER_CLASS % "Long"])
    yield call_of(case, logs[0], mode=["--value-decoder-class", _DECODER_CLASS % "String"])
    yield call_of(case, logs[0], mode=["--key-decoder-class"])
    yield call_of(case, logs[0], mode=["--value-decoder-class", "no.such.Decoder"])
    yield call_of(case, logs[0], mode=["--value-decoder-class", "kafka.serializer.StringDecoder"])
