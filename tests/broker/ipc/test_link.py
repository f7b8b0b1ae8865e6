"""Requests, answers and notices between the two ends of a link."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.links import Joined
from fakes.loop_world import LoopClock, LoopTasks, turns
from fakes.world import ManualPromise, start
from magnetar_broker.base.errors import TopicNotFound, UnknownError
from magnetar_broker.ipc import link as link_module
from magnetar_broker.ipc.frames import encode
from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import ProcessUnavailable


class Through:
    """A wire that carries everything at once."""

    def __init__(self, to: Link) -> None:
        self._to = to

    def write(self, data: bytes, /) -> None:
        self._to.receive(data)

    def close(self) -> None:
        self._to.lost()


def asked(link: Link, name: str, *args: Any) -> ManualPromise:
    promise = link.request(name, *args)
    assert isinstance(promise, ManualPromise)
    return promise


def joined(handlers: dict[str, Callable[..., Any]], step: int = 1 << 20) -> Joined:
    found = Joined(step=step)
    found.right.serve(handlers)
    return found.connect()


def test_a_request_is_answered_with_what_the_handler_returns() -> None:
    def add(one: int, other: int) -> int:
        return one + other

    async def nothing() -> None:
        pass

    pair = joined({"add": add, "nothing": nothing})
    answers = [asked(pair.left, "add", 1, 2), asked(pair.left, "nothing")]
    pair.clock.pump()
    assert [answer.result() for answer in answers] == [3, None]


def test_a_handler_may_return_a_promise() -> None:
    promise = ManualPromise()
    pair = joined({"later": lambda: promise})
    answer = asked(pair.left, "later")
    pair.clock.pump()
    assert not answer.done()
    promise.set_result(b"value")
    pair.clock.pump()
    assert answer.result() == b"value"


def test_both_sides_ask_and_a_handler_may_ask_back() -> None:
    pair = Joined()

    async def twice(what: str) -> Any:
        return await pair.right.request("once", what) * 2

    pair.right.serve({"twice": twice})
    pair.left.serve({"once": str.upper})
    pair.connect()
    answer = asked(pair.left, "twice", "ab")
    pair.clock.pump()
    assert answer.result() == "ABAB"


def test_answers_come_in_the_order_in_which_handlers_end() -> None:
    gates = [ManualPromise(), ManualPromise()]
    pair = joined({"wait": lambda at: gates[at]})
    answers = [asked(pair.left, "wait", at) for at in (0, 1)]
    pair.clock.pump()
    gates[1].set_result("second")
    pair.clock.pump()
    assert not answers[0].done() and answers[1].result() == "second"
    gates[0].set_result("first")
    pair.clock.pump()
    assert answers[0].result() == "first"


@given(
    sent=st.lists(st.sampled_from(["plain", "waits", "notice", "waiting notice"]), max_size=12),
    step=st.integers(1, 60),
)
@settings(max_examples=examples(200))
def test_handlers_begin_in_the_order_of_sending(sent: list[str], step: int) -> None:
    began: list[int] = []
    gate = ManualPromise()

    async def waits(number: int) -> None:
        began.append(number)
        await gate

    pair = joined({"plain": began.append, "waits": waits}, step)
    for number, kind in enumerate(sent):
        name = "waits" if "wait" in kind else "plain"
        if "notice" in kind:
            pair.left.notify(name, number)
        else:
            pair.left.request(name, number)
    pair.clock.pump()
    assert began == list(range(len(sent)))
    gate.set_result(None)
    pair.clock.pump()


def test_the_frames_of_a_turn_are_one_write_and_so_are_their_answers() -> None:
    pair = joined({"echo": lambda value: value})
    answers = [asked(pair.left, "echo", number) for number in range(50)]
    pair.left.notify("echo", -1)
    pair.clock.pump()
    assert [answer.result() for answer in answers] == list(range(50))
    assert len(pair.to_right.writes) == len(pair.to_left.writes) == 1


def test_what_is_sent_before_the_link_is_connected_waits() -> None:
    pair = Joined()
    pair.right.serve({"echo": lambda value: value})
    answer = asked(pair.left, "echo", 7)
    pair.clock.pump()
    pair.connect()
    pair.clock.pump()
    assert answer.result() == 7


# Errors ------------------------------------------------------------------------------


async def refuse_later() -> None:
    raise TopicNotFound("no topic t: create it")


def refuse() -> None:
    raise TopicNotFound("no topic t: create it")


@pytest.mark.parametrize("handler", [refuse, refuse_later])
def test_a_refusal_arrives_as_what_it_was(
    handler: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    pair = joined({"refuse": handler})
    answer = asked(pair.left, "refuse")
    pair.clock.pump()
    with pytest.raises(TopicNotFound, match=r"^no topic t: create it$"):
        answer.result()
    assert not caplog.records


def test_a_defect_is_logged_where_it_happened(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ZeroDivisionError("secret")

    pair = joined({"broken": broken, "object": object, "echo": lambda value: value})
    answers = [asked(pair.left, name) for name in ("broken", "object", "unknown", "echo")]
    later = asked(pair.left, "echo", 1)
    pair.clock.pump()
    for name, answer in zip(("broken", "object", "unknown", "echo"), answers, strict=True):
        with pytest.raises(UnknownError, match=f"^{name} failed by a defect"):
            answer.result()
    assert later.result() == 1
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [ZeroDivisionError, ValueError, KeyError, TypeError]
    assert "of the left side failed" in caplog.text


def test_a_notice_that_fails_is_logged_and_the_next_is_handled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[int] = []
    pair = joined({"refuse": refuse, "later": refuse_later, "see": seen.append})
    for name in ("refuse", "later", "unknown"):
        pair.left.notify(name)
    pair.left.notify("see", 1)
    pair.clock.pump()
    assert seen == [1]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


def test_what_cannot_be_sent_is_refused_to_the_caller_and_leaves_nothing() -> None:
    pair = joined({"echo": lambda value: value})
    with pytest.raises(ValueError, match="of type object cannot be sent"):
        pair.left.request("echo", object())
    with pytest.raises(ValueError, match="of type object cannot be sent"):
        pair.left.notify("echo", object())
    answer = asked(pair.left, "echo", 1)
    pair.clock.pump()
    assert answer.result() == 1


def test_a_name_is_served_once() -> None:
    pair = joined({"echo": lambda value: value})
    with pytest.raises(ValueError, match="serves \\['echo'\\] already"):
        pair.right.serve({"echo": refuse})


async def test_a_handler_that_is_cancelled_answers_that_the_outcome_is_unknown() -> None:
    tasks, clock = LoopTasks(), LoopClock()
    left, right = Link("the right side", clock, tasks), Link("the left side", clock, tasks)
    right.serve({"wait": asyncio.Event().wait})
    answer = left.request("wait")
    left.connected(Through(right))
    right.connected(Through(left))
    await turns()
    (waiting,) = tasks._spawned
    waiting.cancel()
    await turns()
    assert waiting.cancelled()
    assert isinstance(answer, asyncio.Future) and answer.done()
    with pytest.raises(ProcessUnavailable, match="is ending: whether wait took place is unknown"):
        await answer


# The end -----------------------------------------------------------------------------


def test_when_the_peer_is_gone_requests_fail_and_later_ones_at_once() -> None:
    pair = joined({"wait": ManualPromise})
    events: list[str] = []
    answer = asked(pair.left, "wait")
    answer.when_done(lambda: events.append("failed"))
    pair.left.when_ended(lambda: events.append("ended"))
    ended = start(pair.left.ended())
    pair.clock.pump()
    assert not answer.done() and not ended.done() and not pair.left.has_ended
    pair.cut()
    assert pair.left.has_ended and ended.done()
    assert events == ["failed", "ended"]
    with pytest.raises(ProcessUnavailable, match="whether wait took place is unknown"):
        answer.result()
    with pytest.raises(
        ProcessUnavailable, match="the link to the right side has ended: wait was not sen"
    ):
        asked(pair.left, "wait").result()
    pair.left.notify("wait")  # dropped
    pair.left.when_ended(lambda: events.append("at once"))
    assert events[-1] == "at once"
    assert start(pair.left.ended()).done()


def test_answers_of_handlers_that_outlive_the_link_are_dropped() -> None:
    gate = ManualPromise()
    pair = joined({"wait": lambda: gate})
    asked(pair.left, "wait")
    pair.clock.pump()
    pair.cut()
    gate.set_result(1)
    pair.clock.pump()
    assert not pair.to_left.writes


def test_close_sends_what_was_sent_before() -> None:
    seen: list[int] = []
    pair = joined({"see": seen.append}, step=3)
    pair.left.pause()
    pair.left.notify("see", 1)
    answer = asked(pair.left, "see", 2)
    pair.left.close()
    pair.left.close()
    with pytest.raises(ProcessUnavailable):
        answer.result()
    pair.clock.pump()
    assert seen == [1, 2] and pair.right.has_ended


def test_a_link_that_a_handler_closes_handles_nothing_more() -> None:
    seen: list[int] = []
    pair = Joined()
    pair.right.serve({"close": pair.right.close, "see": seen.append})
    pair.connect()
    pair.left.notify("close")
    pair.left.notify("see", 1)
    pair.clock.pump()
    assert not seen and pair.left.has_ended


def test_a_link_closed_before_it_is_connected_closes_its_wire() -> None:
    pair = Joined()
    pair.left.close()
    pair.connect()
    pair.clock.pump()
    assert pair.right.has_ended


def test_what_is_no_message_ends_the_link(caplog: pytest.LogCaptureFixture) -> None:
    pair = joined({})
    pair.right.receive(b"\0\0\0\1\xff")
    pair.clock.pump()
    assert pair.left.has_ended and pair.right.has_ended
    assert "the link to the left side is closed: a message that cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ((4, 1, "ask", ()), "an unknown kind"),
        ((-1, 1, "ask", ()), "an unknown kind"),
        (("ask",), "an unknown kind"),
        ((True, "see", ()), "an unknown kind"),
        ((0, 1, "see"), "kind 0 with other parts"),
        ((0, 1, ["see"], ()), "kind 0 with other parts"),
        ((1, "see", [1]), "kind 1 with other parts"),
        ((1, "see", (), 2), "kind 1 with other parts"),
        ((2, 1, "an answer"), "request 1, which is not under way"),
        ((3, 1, ("NotReady", "retry", {})), "request 1, which is not under way"),
        ((3, 1, ("NotReady", "retry")), "a refusal without class, text and fields"),
        ((3, 1, ("NotReady", {}, "retry")), "a refusal without class, text and fields"),
    ],
)
def test_a_message_of_another_form_ends_the_link(
    message: tuple[Any, ...], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    pair, seen = Joined(), list[int]()
    pair.right.serve({"see": seen.append})
    pair.connect()
    pair.right.receive(encode(message))
    pair.right.receive(encode((1, "see", (1,))))
    pair.clock.pump()
    assert pair.left.has_ended and pair.right.has_ended and not seen
    assert "the link to the left side is closed: " in caplog.text and why in caplog.text


def test_an_answer_to_a_cancelled_wait_is_dropped() -> None:
    gate = ManualPromise()
    pair = joined({"wait": lambda: gate, "refuse": refuse})
    answers = [asked(pair.left, "wait"), asked(pair.left, "refuse")]
    for answer in answers:
        answer.set_result("what a cancellation does")
    gate.set_result(1)
    pair.clock.pump()
    assert not pair.left.has_ended


# Limits ------------------------------------------------------------------------------


def test_a_request_above_the_limit_fails_and_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "REQUESTS", 3)
    gate, seen = ManualPromise(), list[int]()

    async def wait(number: int) -> None:
        seen.append(number)
        await gate

    pair = joined({"wait": wait})
    answers = [asked(pair.left, "wait", number) for number in range(4)]
    with pytest.raises(ProcessUnavailable, match="has 3 requests under way: wait was not sent"):
        answers[3].result()
    pair.clock.pump()
    gate.set_result(None)
    pair.clock.pump()
    assert seen == [0, 1, 2]
    again = asked(pair.left, "wait", 4)
    pair.clock.pump()
    assert again.done() and seen == [0, 1, 2, 4]


def test_room_waits_for_a_peer_that_does_not_read() -> None:
    pair = joined({"see": lambda number: None})
    assert start(pair.left.room()).done()
    pair.left.pause()
    rooms = [start(pair.left.room()), start(pair.left.room())]
    pair.left.notify("see", 1)
    pair.clock.pump()
    assert not any(room.done() for room in rooms) and not pair.to_right.writes
    pair.left.resume()
    assert all(room.done() for room in rooms) and len(pair.to_right.writes) == 1
    pair.left.pause()
    last = start(pair.left.room())
    pair.cut()
    assert last.done()


def test_a_peer_that_is_given_up_is_sent_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "OUTPUT_BYTES", 1000)
    pair = joined({"see": lambda data: None})
    pair.left.pause()
    pair.left.notify("see", bytes(900))
    pair.left.notify("see", bytes(200))
    pair.clock.pump()
    assert pair.left.has_ended and pair.right.has_ended
    assert not pair.to_right.writes


def test_a_peer_that_leaves_too_much_unread_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link_module, "OUTPUT_BYTES", 1000)
    pair = joined({"see": lambda data: None})
    pair.left.notify("see", bytes(900))
    pair.clock.pump()
    pair.left.notify("see", bytes(900))
    pair.clock.pump()
    assert not pair.left.has_ended
    pair.left.pause()
    answer = asked(pair.left, "see", bytes(900))
    pair.left.notify("see", bytes(200))
    assert pair.left.has_ended
    with pytest.raises(ProcessUnavailable):
        answer.result()
    assert "the link to the right side is closed: it has not read 11" in caplog.text
