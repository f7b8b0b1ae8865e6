"""docs/configuration.md matches the declarations."""

from pathlib import Path

from pages.configuration import pages

from magnetar_broker.config.keys import COMPATIBLE, NOT_BUILT, UNSAFE
from magnetar_broker.config.settings import KEYS

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == "".join(pages()), "run `make docs`"


def test_every_key_is_on_the_page() -> None:
    page = "".join(pages())
    for name in [*(key.name for key in KEYS.values()), *UNSAFE, *NOT_BUILT, *COMPATIBLE]:
        assert f"`{name}`" in page


def test_tables_have_the_columns_that_they_announce() -> None:
    columns = 0
    for line in "".join(pages()).splitlines():
        if line.startswith("|---"):
            columns = line.count("|")
        elif line.startswith("| ") and columns:
            assert line.count("|") == columns, line
        elif not line.startswith("|"):
            columns = 0
