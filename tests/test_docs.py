"""The pages in docs/ name files, functions, commands, metrics and pages that exist."""

import re
import shlex
from pathlib import Path

import click
import pytest
from pages import rest

from magnetar.cli import main

ROOT = Path(__file__).parents[1]
SOURCES = (
    ROOT,
    ROOT / "broker/magnetar_broker",
    ROOT / "storage/magnetar_storage",
    ROOT / "proto/magnetar_proto",
    ROOT / "client/magnetar",
)
IGNORED = {
    line.removeprefix("/docs/")
    for line in (ROOT / ".gitignore").read_text().splitlines()
    if line.startswith("/docs/")
}
"""Generated pages that are not in the repository: a checkout has them only after `make docs`."""
KEPT = (page for page in (ROOT / "docs").glob("*.md") if page.name not in IGNORED)
PAGES = [*map(ROOT.joinpath, ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *sorted(KEPT)]
NAMED = re.compile(r"`([\w/.]+\.py)(?::\s+([\w.]+))?`")
LINK = re.compile(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)")

ANCHOR = re.compile(r"\]\(([^)#:\s]*\.md)?#([^)]*)\)")
CONSTANT = re.compile(r"`([A-Z_]+)` in `([\w/.]+\.py)`")
METRIC = re.compile(r"`((?:pulsar|magnetar|process_heap)_\w+)")
OPERATED_BY = ("monitoring", "alerts", "memory", "troubleshooting", "limits", "durability")
"""The pages that name metrics."""
OF_CODE = ("architecture", "message-path", "processes", "memory")
"""The pages that name files by their paths within a source root."""
FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?: {4})?(?:\$ )?(?:\S*/)?(magnetar [a-z-](?:(?!, ).)*)$", re.MULTILINE)
NAMED_COMMAND = re.compile(r"`(magnetar [a-z-][^`,]*)`")
SHELL = re.compile(r" (?:[#<|>&]|2>).*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_that_are_kept(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).is_file(), target
        assert Path(target).name not in IGNORED, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    for target, anchor in ANCHOR.findall(page.read_text()):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, and those that it sets itself."""
    text = page.read_text()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ +(.+?) *$", prose, flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        numbers = (f"{slug}-{number}" for number in range(1, 100))
        found.add(slug if slug not in found else next(one for one in numbers if one not in found))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    for command in commands(page.read_text()):
        assert (missing := missing_of(command)) is None, f"{command}: no {missing}"


def commands(text: str) -> list[str]:
    """Return the commands `magnetar ...` of a page, in its blocks and in its sentences."""
    prose = FENCED.sub("", text)
    indented = "\n".join(line for line in prose.splitlines() if line.startswith("    "))
    blocks = "\n".join([*FENCED.findall(text), indented])
    return [*COMMAND.findall(blocks.replace("\\\n", " ")), *NAMED_COMMAND.findall(prose)]


def missing_of(line: str) -> str | None:
    """Return the first command or option of a line that does not exist."""
    words = iter(shlex.split(SHELL.sub("", line.replace("\n", " ")))[1:])
    command: click.Command = main
    for word in words:
        if word in ("-h", "--help", "--version"):
            return None
        if word.startswith("-"):
            option, _, value = word.partition("=")
            found = [one for one in command.params if option in (*one.opts, *one.secondary_opts)]
            if not found:
                return option
            if not value and not getattr(found[0], "is_flag", False):
                next(words, None)
        elif isinstance(command, click.Group) and word[0].islower():
            inner = command.get_command(click.Context(command), word)
            if inner is None:
                return word
            command = inner
    return None


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("magnetar produce TOPIC -k key hello | tee log", None),
        ("magnetar admin --json topics list public/default", None),
        ("magnetar produce --kay key", "--kay"),
        ("magnetar admin topics lists public/default", "lists"),
    ],
)
def test_what_is_missing_of_a_command(line: str, missing: str | None) -> None:
    assert missing_of(line) == missing


@pytest.mark.parametrize("name", OPERATED_BY)
def test_metrics_that_pages_name_exist(name: str) -> None:
    """tests/broker/server/pages/test_metrics_pages.py compares docs/metrics.md with real pages."""
    known = (ROOT / "docs/metrics.md").read_text()
    for metric in METRIC.findall((ROOT / f"docs/{name}.md").read_text()):
        assert re.search(rf"`{metric}[`{{*]", known), f"{metric} is not in docs/metrics.md"


def test_the_index_lists_every_page() -> None:
    listed = LINK.findall((ROOT / "docs/index.md").read_text())
    pages = {page.name for page in PAGES if page.parent.name == "docs"}
    assert pages - {"index.md"} <= set(listed)


def test_every_symptom_has_a_reason_and_a_remedy() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    symptoms = re.findall(r"^### .+\n((?:(?!#).*\n)*)", text, re.MULTILINE)
    assert len(symptoms) >= 20
    for symptom in symptoms:
        assert re.search(r"\*Why\b", symptom), symptom
        assert re.search(r"\*Do\b|what to do", symptom), symptom


SHOWN_BY = {
    "the data directory is incomplete": "crash/test_incomplete_data.py::test_without_segments",
    "a wrong copy is restored": "crash/test_incomplete_data.py::test_older_metadata",
    "ledgers are left that no topic lists": "broker/expiry/test_orphans.py",
    "the disk is full": "crash/test_small_disk.py::test_what_is_refused_says_why",
    "the disk damages data": "broker/server/admin/test_damage.py::test_our_client_is_told",
    "the clock jumps forward": "broker/test_maintenance.py::test_a_clock_that_is_wrong",
    "the clock jumps back": "broker/base/test_clock_watch.py::test_a_clock_that_is_set_right",
    "nobody subscribes before": "broker/official/test_official_unread.py::test_they_outlive",
    "a second broker": "crash/test_two_brokers.py::test_a_second_broker_refuses_to_start",
    "the directory is on NFS": "broker/test_doctor.py::test_what_a_file_system_means",
}
"""The tests that show the rows of "What can go wrong on your side", by their beginnings."""


def test_everything_that_operators_are_promised_is_shown_by_a_test() -> None:
    text = (ROOT / "docs/durability.md").read_text()
    section = text.partition("## What can go wrong on your side\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    shown = list(SHOWN_BY.items())
    for row, (beginning, test) in zip(rows[1:], shown, strict=True):
        assert row.startswith(beginning)
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / "tests" / file).read_text(), test


def test_pages_that_are_not_kept_are_generated() -> None:
    commands = (ROOT / "Makefile").read_text()
    assert {"rest.md"} == IGNORED
    assert all(f"> docs/{page}\n" in commands for page in IGNORED)


def test_pages_name_files_and_functions_that_are_there() -> None:
    pages = (ROOT / "docs" / f"{name}.md" for name in OF_CODE)
    named = [one for page in pages for one in NAMED.findall(page.read_text())]
    assert len(named) > 40
    for file, function in named:
        found = [base / file for base in SOURCES if (base / file).is_file()]
        assert found, f"{file} is in none of the source roots"
        text = found[0].read_text()
        for name in filter(None, function.split(".")):
            assert re.search(rf"^\s*(async )?(def|class) {name}\b", text, re.MULTILINE), (
                f"{file} has no {name}"
            )


def test_the_constants_that_limit_memory_exist() -> None:
    constants = CONSTANT.findall((ROOT / "docs" / "memory.md").read_text())
    assert len(constants) > 20
    for constant, file in constants:
        found = [base / file for base in SOURCES if (base / file).is_file()]
        assert found, f"{file} is in none of the source roots"
        assert re.search(rf"\b{constant}\b.* = ", found[0].read_text()), constant


def test_the_page_of_the_rest_api_has_every_request() -> None:
    page = "".join(rest.pages())
    assert all((ROOT / "docs" / target).is_file() for target in LINK.findall(page))
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len({row.split("`")[1] for row in rows}) > 100
    assert {row.count("|") for row in rows} == {7}


def test_every_room_is_in_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for package in ("broker/magnetar_broker", "storage/magnetar_storage"):
        for room in (ROOT / package).iterdir():
            if (room / "__init__.py").is_file():
                assert f"`{room.name}/`" in page, f"{package}/{room.name} is not described"
