"""Answers as text for people."""

from typing import cast

from magnetar.cli.admin.showing import lines_of, policy_lines, rows, table, with_tables
from magnetar.cli.admin.stats import topic_lines


def test_columns_of_numbers_are_aligned_at_the_right() -> None:
    cells = [("a", 1, "1.0 KB", "10.0.0.1:1"), ("long", 1000, "-", "x")]
    assert list(table(("name", "n", "size", "address"), cells)) == [
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


def test_times_are_shown_as_such() -> None:
    assert list(lines_of({"lastAckedTimestamp": 1, "lastExpireTimestamp": 0, "n": 2})) == [
        "lastAckedTimestamp   1970-01-01T00:00:00.001Z",
        "lastExpireTimestamp  0",
        "n                    2",
    ]
    assert list(lines_of({"aTimestamp": 1 << 62})) == [f"aTimestamp  {1 << 62}"]


def test_a_policy_that_is_not_set() -> None:
    for value in cast("tuple[object, ...]", (None, {}, [])):
        assert list(policy_lines(value)) == ["not set"]
    assert list(policy_lines(0)) == ["0"]
    assert list(policy_lines(False)) == ["false"]


def test_tables_below_a_list_of_members() -> None:
    value = {"n": 1, "rows": {"x": {"a": 2, "b": 3}}, "list": [{"c": 4}], "none": []}
    shown = list(with_tables(value, rows=("a",), list=(), none=()))
    assert shown == ["n  1", "", "rows", "  NAME  A", "  x     2", "", "list", "  C", "  4"]
    assert list(rows(value["rows"])) == ["NAME  A  B", "x     2  3"]  # type: ignore[arg-type]
    assert list(rows({})) == ["NAME"]


def test_statistics_without_most_members() -> None:
    """Older brokers, and Pulsar, leave members out."""
    shown = "\n".join(topic_lines({"subscriptions": {"s": {"consumers": [{}]}}, "partitions": {}}))
    assert "no producers" in shown
    assert "subscriptions (1)" in shown
    assert "consumers (1)" in shown
    assert "partitions" not in shown
