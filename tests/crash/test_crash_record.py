"""The judge of official clients finds what it is there to find; file events are received."""

from pathlib import Path

import pulsar
import pytest

from crash.file_events import FileEvents
from crash.lives import BUNDLES, Lives, Tally, WorkersLives
from crash.record import SETTLED_SECONDS, Message, Promise, Record, Report
from crash.victims import PROBES

OK = pulsar.Result.Ok
KEY = (1, 2, -1)
ALARMS: list[str] = []


@pytest.fixture
def record() -> Record:
    return Record(Lives(), Tally(), ALARMS.append)


def die(record: Record) -> None:
    """The next life begins."""
    record.lives.killed()
    record.lives.starting()
    record.lives.started()


def confirmed(record: Record, *numbers: int) -> list[Message]:
    """Messages that were sent and got a receipt."""
    messages = [Message("p", number) for number in numbers]
    for message in messages:
        record.sent(message)
        record.answered(message, OK)
    return messages


def test_what_is_as_promised(record: Record) -> None:
    messages = confirmed(record, 0, 1, 2)
    assert not record.report(messages).problems


def test_lost_invented_and_out_of_order(record: Record) -> None:
    first, second, third = confirmed(record, 0, 1, 2)
    assert "1 lost after their receipt" in record.report([first, third]).problems[0]
    stranger = Message("p", 7)
    problems = record.report([first, second, third, stranger]).problems
    assert "1 stored but never sent" in problems[0]
    assert "out of order" in record.report([second, first, third]).problems[0]


def test_a_copy_needs_a_kill(record: Record) -> None:
    (message,) = confirmed(record, 0)
    assert "more often" in record.report([message, message]).problems[0]
    late = Message("p", 1)
    record.sent(late)
    die(record)
    record.answered(late, OK)
    assert not record.report([message, late, late]).problems
    assert record.report([message, late, late, late]).problems


def test_a_failed_send_is_reported(record: Record) -> None:
    record.sent(Message("p", 0))
    record.answered(Message("p", 0), pulsar.Result.Timeout)
    assert "sends failed" in record.report([]).problems[0]


def test_an_answered_ack_is_safe_at_once(record: Record) -> None:
    record.delivered("sub", KEY, 0)
    record.ack_answered("sub", [KEY], 0, at=10.0)
    die(record)
    record.delivered("sub", KEY, 1)
    assert "though that had been answered" in record.report([]).problems[0]
    assert "though that had been answered" in ALARMS.pop() and not ALARMS


@pytest.mark.parametrize(("answered_at", "safe"), [(10.5, False), (11.5, True)])
def test_another_ack_is_safe_once_a_later_one_was_answered(
    record: Record, answered_at: float, safe: bool
) -> None:
    record.delivered("sub", KEY, 0)
    record.acked("sub", [KEY], 0, at=10.0)
    record.ack_answered("other", [(1, 1, -1)], 0, at=answered_at)
    die(record)
    record.delivered("sub", KEY, 1)
    assert bool(record.report([]).problems) is safe
    ALARMS.clear()


def test_an_ack_of_a_life_that_is_over_counts_for_nothing(record: Record) -> None:
    record.delivered("sub", KEY, 0)
    die(record)
    record.acked("sub", [KEY], 0, at=1.0)
    record.delivered("sub", KEY, 1)
    assert not record.report([]).problems


def test_a_trap_springs_in_the_moment_of_a_promise(record: Record) -> None:
    assert not record.kill_at_next(Promise.RECEIPT, lambda: None, seconds=0.01)
    kills: list[int] = []
    record._trap = (Promise.RECEIPT, lambda: kills.append(1))
    confirmed(record, 0, 1)
    assert kills == [1]


def test_a_life_that_ends_before_it_was_ready_is_none(record: Record) -> None:
    lives = record.lives
    lives.killed()
    assert lives.connectable is None and lives.life is None
    lives.starting()
    assert lives.connectable == 1
    assert lives.await_life(0.01) is None
    lives.started()
    assert lives.await_life(1.0) == 1


def test_reports_add_up() -> None:
    total = Report(sent=1, problems=["a"], backlogs={("t", "s"): 1}) + Report(
        sent=2, problems=["b"], backlogs={("u", "s"): 2}
    )
    assert (total.sent, total.problems, len(total.backlogs)) == (3, ["a", "b"], 2)


def test_file_events(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    with FileEvents(tmp_path, "segments") as events:
        (tmp_path / "checkpoint-1.tmp").write_text("x")
        (tmp_path / "segments" / "1.seg").write_text("x")
        assert events.await_change("segments/", 5.0)
        (tmp_path / "checkpoint-2.tmp").write_text("x")
        events.forget()
        assert not events.await_change("checkpoint-", 0.01)
        (tmp_path / "checkpoint-2.tmp").rename(tmp_path / "checkpoint-2")
        assert events.await_change("checkpoint-2", 5.0)


def test_lives_are_those_of_the_bundle_of_a_topic() -> None:
    lives = WorkersLives()
    topics = [f"persistent://public/default/topic-partition-{number}" for number in range(BUNDLES)]
    assert {id(lives.of(topic)) for topic in topics} == {id(one) for one in lives.all()}
    assert [id(lives.of(topic)) for topic in PROBES] == [id(one) for one in lives.all()]


# Moves ------------------------------------------------------------------------------------------


def move(lives: Lives) -> None:
    """The topic is moved to another process."""
    lives.move_begins()
    lives.move_ends()


def test_a_move_is_no_reason_for_copies(record: Record) -> None:
    message = Message("p", 0)
    record.sent(message)
    move(record.lives)
    record.answered(message, OK)
    assert "more often" in record.report([message, message]).problems[0]


def test_an_answered_ack_survives_a_move(record: Record) -> None:
    record.delivered("sub", KEY, 0)
    record.ack_answered("sub", [KEY], 0, at=10.0)
    move(record.lives)
    record.delivered("sub", KEY, 0)
    assert "though that had been answered" in record.report([]).problems[0]
    ALARMS.clear()


@pytest.mark.parametrize("moved", [False, True])
def test_an_ack_without_an_answer_may_be_lost_in_a_move(record: Record, moved: bool) -> None:
    record.delivered("sub", KEY, 0)
    record.acked("sub", [KEY], 0, at=10.0)
    if moved:
        move(record.lives)
    record.delivered("sub", KEY, 0)
    assert bool(record.report([]).problems) is not moved
    ALARMS.clear()


def test_acks_of_what_the_former_owner_has_sent_count_for_nothing(record: Record) -> None:
    record.delivered("sub", KEY, 0)
    move(record.lives)
    record.acked("sub", [KEY], 0, at=record.lives.disturbed_at + SETTLED_SECONDS / 2)
    record.delivered("sub", KEY, 0)
    assert not record.report([]).problems


def test_a_process_that_is_killed_may_have_relayed_to_the_owner() -> None:
    lives = WorkersLives(3)
    lives.placed([0] * BUNDLES)
    (first, second, *_) = lives.all()
    lives.move_begins(0, 1)
    lives.move_ends(0, 1)
    for number in (0, 1):
        lives.relay_killed(number)
    assert (first.relays_killed, second.relays_killed) == (1, 0)
    record = Record(first, Tally(), ALARMS.append)
    (message,) = confirmed(record, 0)
    late = Message("p", 1)
    record.sent(late)
    lives.relay_killed(0)
    record.answered(late, OK)
    assert not record.report([message, late, late]).problems
    assert record.report([message, message, late]).problems
    lives.placed([0] * BUNDLES)
    lives.relay_killed(2)
    assert first.relays_killed == 3, "its clients may still name worker 1"
    lives.placed([0] * BUNDLES)
    lives.relay_killed(2)
    assert (first.relays_killed, second.relays_killed) == (3, 0)


def test_clients_follow_a_move_that_a_kill_of_the_broker_has_cut_short() -> None:
    lives = WorkersLives(3)
    lives.placed([0] * BUNDLES)
    (first, second, *_) = lives.all()
    lives.move_begins(0, 1)
    lives.move_ends(0, None)
    lives.placed([0] * BUNDLES)
    lives.relay_killed(1)
    assert (first.relays_killed, second.relays_killed) == (1, 0)


def test_both_owners_end_the_lives_of_a_bundle_that_moves() -> None:
    lives = WorkersLives(3)
    lives.placed([0] * BUNDLES)
    (first, second, *_) = lives.all()
    lives.move_begins(0, 2)
    assert first in lives.of_worker(0) and lives.of_worker(2) == [first] and first.moving
    lives.move_ends(0, 2)
    assert first not in lives.of_worker(0) and lives.of_worker(2) == [first]
    lives.move_begins(1, 1)
    lives.move_ends(1, None)  # it failed: either may have topics
    assert second in lives.of_worker(0) and lives.of_worker(1) == [second]
    assert (first.moves_begun, first.moves_ended, first.moving) == (1, 1, False)
