"""Patterns of topic names: what they match, and which are left to clients."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.base.errors import BadPattern, PatternUnsupported
from magnetar_broker.names.topic_pattern import TopicPattern

APPLE = "persistent://a/b/apple"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a/b/app.*", APPLE, True),
        ("persistent://a/b/app.*", APPLE, True),
        ("non-persistent://a/b/app.*", APPLE, True),
        ("a/b/app.*", "non-persistent://a/b/apple", True),
        ("a/b/app", APPLE, False),
        ("apple", APPLE, False),
        (r".*/\Qapp\E.*", APPLE, True),
        ("a/b/apple", f"{APPLE}-partition-3", True),
        ("a/b/apple-partition-3", f"{APPLE}-partition-3", False),
        ("a/b/apple-partition-x", f"{APPLE}-partition-x", True),
        ("", APPLE, False),
        ("a/b/é.*", "persistent://a/b/étude", True),
    ],
)
def test_what_matches(pattern: str, name: str, expected: bool) -> None:
    assert TopicPattern(pattern).matches(name) is expected


@pytest.mark.parametrize("pattern", ["(a", "a**b(", "[z-a]"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(BadPattern, match="not a regular expression"):
        TopicPattern(pattern)


@pytest.mark.parametrize("pattern", ["(?!a).*", r"(a)\1", "(?<=a)b"])
def test_what_cannot_be_matched_in_linear_time(pattern: str) -> None:
    with pytest.raises(PatternUnsupported, match="linear"):
        TopicPattern(pattern)


PLAIN = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "c?"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.map(lambda one: f"({one})*"),
    ),
    max_leaves=6,
)


@given(PLAIN, st.text("abc/", max_size=6))
def test_patterns_mean_what_they_do_elsewhere(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern, name) is not None
    assert TopicPattern(pattern).matches(f"persistent://{name}") is expected
