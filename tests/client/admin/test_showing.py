"""Answers as text for people."""

from typing import cast

from magnetar.admin.showing import lines_of, policy_lines, table, with_tables
from magnetar.admin.stats import topic_lines


def test_columns_of_numbers_are_aligned_at_the_right() -> None:
    rows = [("a", 1, "1.0 KB", "10.0.0.1:1"), ("long", 1000, "-", "x")]
    assert list(table(("name", "n", "size", "address"), rows)) == [
        "NAME     N    SIZE  ADDRESS",
        "a        1  1.0 KB  10.0.0.1:1",
        "long  1000       -  x",
    ]
    assert list(table(("name",), [])) == ["NAME"]


def test_values_of_all_kinds() -> None:
    assert list(lines_of(["a", "b"])) == ["a", "b"]
    assert list(lines_of({"a": {"b": [1, 2], "c": {}}, "d": None, "e": True})) == [
        "a.b  1, 2",
        "a.c  -",
        "d    -",
        "e    true",
    ]
    assert list(lines_of([{"a": 1}, {"b": [{}]}])) == ["A  B", "1  -", "-  [{}]"]
    assert list(lines_of(None)) == []
    assert list(lines_of({})) == []
    assert list(lines_of(0)) == ["0"]


def test_a_policy_that_is_not_set() -> None:
    for value in cast("tuple[object, ...]", (None, {}, [])):
        assert list(policy_lines(value)) == ["not set"]
    assert list(policy_lines(0)) == ["0"]
    assert list(policy_lines(False)) == ["false"]


def test_tables_below_a_list_of_members() -> None:
    shown = list(with_tables({"n": 1, "rows": {"x": {"a": 2}}, "none": []}, rows="rows", none="no"))
    assert shown == ["n  1", "", "rows", "  NAME  A", "  x     2"]


def test_statistics_without_most_members() -> None:
    """Older brokers, and Pulsar, leave members out."""
    shown = "\n".join(topic_lines({"subscriptions": {"s": {"consumers": [{}]}}, "partitions": {}}))
    assert "no producers" in shown
    assert "subscriptions (1)" in shown
    assert "consumers (1)" in shown
    assert "partitions" not in shown
