"""Sizes and durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.cli import units

LONG = 1 << 63


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("-1", -1), ("4096", 4096), ("1k", 1024), ("10M", 10 << 20), ("16G", 16 << 30),
     ("3T", 3 << 40), (" 5K ", 5 << 10)],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("-1", -1), ("90", 90), ("90s", 90), ("100m", 6000), ("3h", 10_800), ("2d", 172_800),
     ("5w", 3_024_000), ("1y", 31_536_000)],
)  # fmt: skip
def test_times(text: str, seconds: int) -> None:
    assert units.parse_seconds(text) == seconds


@pytest.mark.parametrize(("text", "minutes"), [("90", 90), ("-1", -1), ("90s", 1), ("3h", 180)])
def test_minutes(text: str, minutes: int) -> None:
    assert units.parse_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "x", "1.5G", "1B", "1GB", "--1", "G", "1 G", "9" * 19, "9y9"])
def test_what_is_no_size_or_time(text: str) -> None:
    for parse in (units.parse_size, units.parse_seconds):
        if text != "9" * 19:
            with pytest.raises(ValueError, match="is not"):
                parse(text)
    with pytest.raises(ValueError, match=r"is not|too large"):
        units.parse_size(f"{text}T")


def test_minutes_of_less_than_one() -> None:
    with pytest.raises(ValueError, match="30s is too little"):
        units.parse_minutes("30s")


@given(st.text(alphabet="0123456789-kKmMgGtTshdwy .", max_size=24))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    for parse in (units.parse_size, units.parse_seconds, units.parse_minutes):
        try:
            assert -LONG < parse(text) < LONG
        except ValueError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (10 << 20, "10.0 MB"), (5 << 40, "5.0 TB"),
     (5 << 50, "5120.0 TB"), (-1, "-")],
)  # fmt: skip
def test_sizes_for_people(amount: int, text: str) -> None:
    assert units.size(amount) == text


def test_numbers_for_people() -> None:
    assert units.count(1234567) == "1,234,567"
    assert units.count(0.5) == "0.50"
    assert units.rate(12.345, " messages") == "12.3 messages/s"
