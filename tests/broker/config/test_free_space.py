"""Parsing a limit of free space."""

import re

import pytest

from magnetar_broker.config.values import FreeSpace, render
from magnetar_storage.space.free_limit import FreeLimit

TEXTS = {
    "auto": FreeLimit(),
    "0": FreeLimit(bytes=0),
    "500": FreeLimit(bytes=500),
    "7k": FreeLimit(bytes=7 << 10),
    "20G": FreeLimit(bytes=20 << 30),
    "1T": FreeLimit(bytes=1 << 40),
    "5%": FreeLimit(percent=5),
    "2.5%": FreeLimit(percent=2.5),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_has_a_value_that_is_rendered_to_a_text_with_the_same_value(text: str) -> None:
    value = FreeSpace().parse(text)
    assert value == TEXTS[text]
    assert FreeSpace().parse(render(value)) == value


@pytest.mark.parametrize("text", ["-1", "1 G", "100%", "5 %", "1GB", "many", "1.5G", "%"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        FreeSpace().parse(text)
