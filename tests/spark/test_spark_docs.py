"""The page of options is made of their declarations."""

from pathlib import Path

from pages import spark_options as docs

from pyspark_magnetar.options.option_table import OPTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-options.md"


def test_the_page_of_options_is_current() -> None:
    page = "".join(docs.pages())
    assert PAGE.read_text() == page, "run `make docs`"
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(OPTIONS)
    assert {row.count("|") for row in rows} == {3, 4}
