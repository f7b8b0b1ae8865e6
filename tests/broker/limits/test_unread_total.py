"""The limit of unread messages over all topics."""

import pytest

from magnetar_broker.limits.unread_total import UnreadTotal
from magnetar_proto.names import TopicName

MB = 1 << 20
ORDERS = TopicName.parse("persistent://public/default/orders")
LOGS = TopicName.parse("persistent://public/default/logs")


def test_the_oldest_of_all_topics_are_given_up_at_the_next_check(
    caplog: pytest.LogCaptureFixture,
) -> None:
    total = UnreadTotal(10 * MB)
    total.add(ORDERS, [(100, 4 * MB), (300, 4 * MB)], -1)
    total.add(LOGS, [(50, 4 * MB), (200, 4 * MB)], -1)
    assert total.given_up_ms == 0, "nothing is deleted by the check that finds it"
    total.end_check()
    assert (total.kept_bytes, total.given_up_ms) == (16 * MB, 100)
    assert "16 MB are kept of all topics" in caplog.text
    total.add(ORDERS, [(300, 4 * MB)], -1)
    total.add(LOGS, [(200, 4 * MB)], -1)
    total.end_check()
    assert (total.kept_bytes, total.given_up_ms) == (8 * MB, 0)


def test_they_take_a_quarter_of_a_small_disk_at_most() -> None:
    total = UnreadTotal(10 * MB)
    total.add(ORDERS, [(100, 4 * MB), (300, 4 * MB)], -1)
    total.end_check(disk_bytes=20 * MB)
    assert total.given_up_ms == 100


def test_workers_share_that_quarter() -> None:
    total = UnreadTotal(10 * MB, workers=2)
    total.add(ORDERS, [(100, 2 * MB), (300, 2 * MB)], -1)
    total.end_check(disk_bytes=20 * MB)
    assert total.given_up_ms == 100


def test_a_limit_that_is_raised_in_time_deletes_nothing() -> None:
    total = UnreadTotal(1 * MB)
    total.add(ORDERS, [(100, 2 * MB)], -1)
    total.end_check()
    assert total.given_up_ms == 100
    total.change(1 * MB)
    assert total.given_up_ms == 100
    total.change(3 * MB)
    assert total.given_up_ms == 0


@pytest.mark.parametrize("limit", [-1, 16 * MB])
def test_up_to_the_limit_nothing_is_given_up(limit: int, caplog: pytest.LogCaptureFixture) -> None:
    total = UnreadTotal(limit)
    total.add(ORDERS, [(100, 16 * MB)], -1)
    total.end_check()
    assert total.given_up_ms == 0
    assert caplog.text == ""


def test_a_topic_is_warned_about_once_before_its_own_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    total = UnreadTotal(-1)
    total.add(ORDERS, [(1, 7 * MB)], 10 * MB)
    assert caplog.text == ""
    for _ in range(2):
        total.add(ORDERS, [(1, 8 * MB)], 10 * MB)
        total.end_check()
    assert caplog.text.count(f"{ORDERS} has 8 MB that no subscription has acknowledged") == 1
    total.add(ORDERS, [], 10 * MB)
    total.end_check()
    total.add(ORDERS, [(1, 9 * MB)], 10 * MB)
    assert caplog.text.count("that no subscription has acknowledged") == 2


def test_a_topic_that_is_looked_at_twice_counts_once() -> None:
    total = UnreadTotal(-1)
    for _ in range(2):
        total.add(ORDERS, [(1, MB)], -1)
    total.end_check()
    assert total.kept_bytes == MB


def test_what_is_deleted_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    total = UnreadTotal(-1)
    total.delete(ORDERS, 2, 5)
    total.delete(LOGS, 1, 6)
    assert total.deleted_bytes == 11
    assert f"2 ledgers of {ORDERS} with 5 bytes are deleted" in caplog.text
