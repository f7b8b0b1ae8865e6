"""docs/command-line.md is what the declarations say."""

from pathlib import Path

from pages.command_line import pages

from magnetar.cli.admin.commands import GROUPS, commands_of
from magnetar.cli.admin.declarations import flags_of

PAGE = Path(__file__).parents[4] / "docs" / "command-line.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == "".join(pages()), "run `make docs`"


def test_names_and_flags_are_unique() -> None:
    for group in GROUPS:
        commands = commands_of(group)
        names = [name for one in commands for name in (one.name, *one.aliases)]
        assert len(names) == len(set(names)), group
        for one in commands:
            flags = [text for parameter in one.parameters for text in flags_of(parameter)]
            assert len(flags) == len(set(flags)), (group, one.name)
