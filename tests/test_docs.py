"""The pages in docs/ name files, functions and pages that exist."""

import re
from pathlib import Path

import pytest

from magnetar_broker.server.admin import docs as rest

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
"""Generated pages that are not kept: a checkout has them only after `make docs`."""
KEPT = (page for page in (ROOT / "docs").glob("*.md") if page.name not in IGNORED)
PAGES = [*map(ROOT.joinpath, ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *sorted(KEPT)]
NAMED = re.compile(r"`([\w/.]+\.py)(?::\s+([\w.]+))?`")
LINK = re.compile(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_that_are_kept(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).is_file(), target
        assert Path(target).name not in IGNORED, target


def test_pages_that_are_not_kept_are_generated() -> None:
    commands = (ROOT / "Makefile").read_text()
    assert {"rest.md"} == IGNORED
    assert all(f"> docs/{page}\n" in commands for page in IGNORED)


def test_the_architecture_names_what_is_there() -> None:
    named = NAMED.findall((ROOT / "docs" / "architecture.md").read_text())
    assert len(named) > 40
    for file, function in named:
        found = [base / file for base in SOURCES if (base / file).is_file()]
        assert found, f"{file} is in none of the source roots"
        text = found[0].read_text()
        for name in filter(None, function.split(".")):
            assert re.search(rf"^\s*(async )?(def|class) {name}\b", text, re.MULTILINE), (
                f"{file} has no {name}"
            )


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
