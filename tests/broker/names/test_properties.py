"""The properties syntax, and that written values are read back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.config.properties import Property, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key=value", [Property(1, "key", "value")]),
        ("  key  =  two words \t", [Property(1, "key", "two words")]),
        ("key = 8192", [Property(1, "key", "8192")]),
        ("key:value", [Property(1, "key", "value")]),
        ("key value", [Property(1, "key", "value", is_assigned=False)]),
        ("key", [Property(1, "key", "", is_assigned=False)]),
        ("key=", [Property(1, "key", "")]),
        ("key==a=b", [Property(1, "key", "=a=b")]),
        ("secret=data:;base64,aGk=", [Property(1, "secret", "data:;base64,aGk=")]),
        ("# no=1\n\n! no=2\n \t\nkey=3", [Property(5, "key", "3")]),
        ("key=value # not a comment", [Property(1, "key", "value # not a comment")]),
        ("a=1\r\nb=2\r\n", [Property(1, "a", "1"), Property(2, "b", "2")]),
        ("a=1\na=2", [Property(1, "a", "1"), Property(2, "a", "2")]),
        (
            "roles=a,\\\n   b,\\\n   c\nnext=1",
            [Property(1, "roles", "a,b,c"), Property(4, "next", "1")],
        ),
        ("# comment \\\nkey=1", [Property(2, "key", "1")]),
        ("key=1\\", [Property(1, "key", "1")]),
        ("path=c\\:\\\\dir", [Property(1, "path", "c:\\dir")]),
        ("two\\ words=1", [Property(1, "two words", "1")]),
        ("tab=a\\tb\\u0041", [Property(1, "tab", "a\tbA")]),
        ("even=1\\\\\nnext=2", [Property(1, "even", "1\\"), Property(2, "next", "2")]),
        ("", []),
    ],
)
def test_parse(text: str, expected: list[Property]) -> None:
    assert list(parse(text)) == expected


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


WORDS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.tuples(WORDS, WORDS)))
def test_every_text_can_be_written_with_escapes(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in pairs)
    assert list(parse(text)) == [
        Property(line, key, value) for line, (key, value) in enumerate(pairs, 1)
    ]


@given(st.text())
def test_any_text_is_read_in_order_of_its_lines(text: str) -> None:
    lines = [line for line, _, _, _ in parse(text)]
    assert lines == sorted(set(lines))
    assert len(lines) <= len(text.splitlines())
