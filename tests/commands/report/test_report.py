"""`kafkatool report` as people, scripts and browsers see it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafkatool.commands.report import cache as report_cache
from kafkatool.commands.report import findings as report_findings
from kafkatool.commands.report import sections as report_sections
from tests.browser import Browser
from tests.cli import of_kind, rows_of, run
from tests.engine.cold import evict, resident_pages
from tests.kafka.peers import require_program
from tests.logs import batches, write_log
from tests.transcripts import prepare

NOW = ("--now", "2026-03-01T10:00:00Z")
HOSTILE = '"><script>hacked=1<!--'
"""No broker makes such a topic; a damaged disk, or somebody who can make directories, does."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    prepare(directory)
    return directory / "sample"


def _page(*arguments: str) -> str:
    return run("report", "-q", *NOW, "-o", "-", *arguments).stdout.decode()


_rows = partial(rows_of, "report", "-q", *NOW)


class _Tags(HTMLParser):
    """Every tag with its attributes, and that each is closed by its own."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


# --- what it says -------------------------------------------------------------------------------------


def test_the_page_says_first_what_is_wrong_and_what_to_do(sample: Path) -> None:
    text = "\n".join(_Tags(_page(str(sample))).text)
    said = "Records are lost or cannot be read in 1 of 5 partitions: clicks-1, offsets 2-3, 8 to the end."
    assert said in text
    assert text.index(said) < text.index(f"kafkatool recover --mend-bits {sample}/clicks-1")
    for fact in ("MkU3OEVBNTcwNTJENDM2Qg", "2026-03-01T10:00:00.000Z", "not running, and no clean shutdown"):
        assert fact in text


def test_every_section_is_there_and_linked(sample: Path) -> None:
    tags = _Tags(_page(str(sample))).tags
    ids = {one["id"] for _tag, one in tags if "id" in one}
    links = {str(one["href"]) for tag, one in tags if tag == "a"}
    wanted = "findings topics time hours retention compaction codecs cache settings remarks"
    assert {f"#{name}" for name in wanted.split()} <= links
    assert {link.removeprefix("#") for link in links} <= ids


def test_a_sound_partition_is_called_sound(sample: Path) -> None:
    done = run("report", *NOW, "-o", "-", str(sample / "payments-0"))
    assert done.exit_code == 0
    assert b"Nothing is wrong: 4 batches in 1 partition" in done.stdout
    assert b"<article" not in done.stdout


def test_findings_and_numbers_are_those_of_the_commands_it_stands_for(sample: Path) -> None:
    rows = _rows(str(sample / "orders-0"), str(sample / "clicks-0"), str(sample / "clicks-1"))
    paths = [str(sample / name) for name in ("orders-0", "clicks-0", "clicks-1")]
    assert of_kind(rows, "finding") == of_kind(rows_of("verify", *paths), "finding")
    total = next(row for row in of_kind(rows_of("stats", *NOW, *paths), "stats") if row["by"] == "total")
    mine = of_kind(rows, "stats")[0]
    told = {"damage_classes", "damaged_size", "damaged"}  # verify finds out more of damage
    assert {key: mine[key] for key in mine.keys() - told} == {key: total[key] for key in mine.keys() - told}


def test_retention_and_compaction_are_told_by_topic(sample: Path) -> None:
    options = ("--set", "retention.ms=600000", "--set", "cleanup.policy=compact,delete")
    rows = _rows(*options, str(sample / "orders-0"))
    topic = of_kind(rows, "incident_topic")[0]
    assert (topic["retention_delete_segments"], topic["compaction_removed_records"]) == (2, 3)
    assert {row["value"] for row in of_kind(rows, "setting") if row["name"] == "retention.ms"} == {"600000"}


def test_the_facts_are_the_same_for_any_number_of_processes(sample: Path) -> None:
    one, two = (_rows("--jobs", jobs, str(sample)) for jobs in ("1", "2"))
    assert [row for row in one if row["kind"] != "cache_partition"] == [
        row for row in two if row["kind"] != "cache_partition"
    ]


# --- what stays out -----------------------------------------------------------------------------------


def test_no_key_and_no_value_is_in_it_unless_asked_for(sample: Path) -> None:
    page, facts = _page(str(sample)), json.dumps(_rows(str(sample)))
    for secret in ("visitor-0", "/cart", "order-6", "lamp", "billing", "12.50"):
        assert secret not in page
        assert secret not in facts
    shown = _page("--with-payloads", str(sample))
    assert "visitor-0" in shown
    assert "/cart" in shown
    assert "no key and no value" not in shown


def test_records_around_damage_are_the_nearest_good_ones(sample: Path) -> None:
    rows = of_kind(_rows("--with-payloads", str(sample)), "incident_record")
    first = [(row["side"], row["offset"]) for row in rows if row["finding_position"] == 110]
    assert first == [("before", 0), ("before", 1), ("behind", 4), ("behind", 5), ("behind", 6)]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names, keys and values that would be markup, were they not escaped; and damage, to have them shown."""
    home = tmp_path_factory.mktemp("hostile") / '<img src=x onerror="hacked=1">\u202e'
    data = b"".join(batches(3)).replace(b"value", b"<svg/")
    good = b"".join(batches(6))
    write_log(home / f"{HOSTILE}-0", good[: len(good) // 2] + b"\xff" * 40 + good[len(good) // 2 :])
    write_log(home / "</style><b>-0", data)
    write_log(home / "plain-0", good[:-5])
    return home


def test_no_name_and_no_payload_becomes_markup(hostile: Path) -> None:
    found = _Tags(_page("--with-payloads", str(hostile)))
    assert {tag for tag, _attributes in found.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "nav"),
        *("h1", "h2", "h3", "p", "b", "pre", "code", "dl", "dt", "dd", "div", "span", "a", "ul", "li"),
        *("table", "thead", "tbody", "tr", "th", "td", "article", "details", "summary"),
        *("svg", "defs", "pattern", "path", "rect"),
    }
    assert HOSTILE in "".join(found.text)
    for _tag, attributes in found.tags:
        assert not any(name.startswith("on") or name in ("src", "srcset", "action") for name in attributes)
        assert str(attributes.get("href", "#")).startswith("#")


def test_the_page_forbids_itself_the_network_and_scripts(sample: Path) -> None:
    page = _page(str(sample))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "://" not in page
    assert "url(" not in page.replace("url(#hatch)", "")


# --- where it goes ------------------------------------------------------------------------------------


def test_the_file_is_whole_or_not_there(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("of yesterday")
    assert run("report", "-o", str(out), "--config", "/nowhere", str(sample)).exit_code == 2
    assert out.read_text() == "of yesterday"
    assert run("report", "-o", str(out), str(sample)).exit_code == 4
    assert out.read_text().endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("where", ["report.html", "orders-0/report.html", "orders-0/deep/report.html"])
def test_nothing_is_written_into_a_log_directory(sample: Path, where: str) -> None:
    before = sorted(sample.rglob("*"))
    assert run("report", "-o", str(sample / where), str(sample)).exit_code == 5
    assert sorted(sample.rglob("*")) == before


def test_what_is_no_plain_file_is_left_alone(sample: Path) -> None:
    done = run("report", "-o", "/dev/null", str(sample))
    assert done.exit_code == 2
    assert b"is no plain file" in done.stderr
    assert Path("/dev/null").is_char_device()


def test_what_could_not_be_read_is_exit_3_and_in_the_page(sample: Path, tmp_path: Path) -> None:
    configured = tmp_path / "server.properties"
    configured.write_text(f"log.dirs={sample},{tmp_path / 'gone'}\n")
    done = run("report", "-o", "-", str(configured))
    assert done.exit_code == 3
    assert b"1 input could not be read" in done.stdout
    assert b"gone (named in" in done.stdout


def test_only_findings_at_or_above_fail_on_are_exit_4(sample: Path) -> None:
    clicks, orders = str(sample / "clicks-1"), str(sample / "orders-0")
    assert run("report", "--fail-on", "loss", "-o", "-", clicks).exit_code == 4
    assert run("report", "-o", "-", orders).exit_code == 0
    assert run("report", "--fail-on", "note", "-o", "-", orders).exit_code == 4


def test_the_page_cache_is_as_it_was(sample: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sample, copy)
    logs = list(copy.rglob("*.log"))
    for path in logs:
        evict(path)
    if any(any(resident_pages(path)) for path in logs):
        pytest.skip("this file system does not evict (tmpfs?)")
    _page("--with-payloads", "--jobs", "1", str(copy))
    assert [path for path in logs if any(resident_pages(path))] == []


# --- how much -----------------------------------------------------------------------------------------


def test_a_page_of_very_many_partitions_stays_small_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, most in (
        (report_findings, "MOST_ROWS", 15),
        (report_findings, "MOST_CARDS", 3),
        (report_sections, "MOST_TOPICS", 5),
        (report_cache, "MOST_STRIPS", 4),
    ):
        assert getattr(module, name) > most
        monkeypatch.setattr(module, name, most)
    good = b"".join(batches(2))
    for number in range(20):
        write_log(tmp_path / f"topic-{number}-0", good[:-3])
    page = _page("--jobs", "1", str(tmp_path))
    assert "5 more are left out; verify lists all" in page
    assert "15 other topics" in page
    assert page.count("<article") == 3
    assert "16 smaller partitions left out" in page


# --- in a browser -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = require_program("chromium")
    with Browser(program, tmp_path_factory.mktemp("chromium")) as found:
        yield found


def test_a_browser_shows_it_at_any_width_by_day_and_by_night(
    browser: Browser, sample: Path, hostile: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    run("report", *NOW, "--with-payloads", "-o", str(out), str(sample), str(hostile))
    pictures = {}
    for width in (360, 1600):
        for dark in (False, True):
            browser.open(out, width=width, dark=dark)
            widest = browser.ask("document.documentElement.scrollWidth")
            assert widest <= width, "the page is wider than the screen"
            pictures[width, dark] = browser.picture()
            paper = browser.ask("getComputedStyle(document.body).backgroundColor")
            assert paper == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert len(set(pictures.values())) == 4
    assert browser.ask("typeof hacked") == "undefined"
    assert browser.ask("document.scripts.length") == 0
    assert browser.ask("document.querySelector('.card.loss rect.f-loss').getBoundingClientRect().width") > 1
    assert {url.partition(":")[0] for url in browser.requests} == {"file"}
    assert browser.complaints == []
