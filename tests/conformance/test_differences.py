"""The page of differences matches what the traces show."""

from conformance.docs import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"
