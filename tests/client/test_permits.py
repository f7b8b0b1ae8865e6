"""Permits: the broker sends no more than there is room for, and never stops while there is."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.inbox import Inbox
from magnetar.permits import Permits
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode
from magnetar_proto.frames import FrameDecoder

MOST = 10


@dataclass
class Line:
    """Both the attachment and its connection; counts what FLOW has granted."""

    outstanding: int = 0
    flows: list[int] = field(default_factory=list)

    @property
    def connection(self) -> "Line":
        return self

    def write(self, data: bytes) -> None:
        for _, buf, start, mid, _ in FrameDecoder(1 << 20).feed(data):
            command = decode(buf, start, mid)
            assert command.type == pb.BaseCommand.FLOW
            self.flows.append(command.flow.messagePermits)
            self.outstanding += command.flow.messagePermits

    write_now = write


def begun(most: int = MOST) -> tuple[Permits, Line]:
    line = Line()
    inbox: Inbox[Any] = Inbox()
    permits = Permits(1, cast(Any, line), inbox, most, auto_scale=False)
    permits.begin(cast(Any, line))
    return permits, line


STEPS = st.tuples(st.sampled_from(("come", "claim", "take", "drop", "again")), st.integers(1, 12))


@given(st.lists(STEPS, max_size=60))
def test_the_broker_is_granted_what_was_taken_and_no_more(steps: list[tuple[str, int]]) -> None:
    permits, line = begun()
    claimed = 0
    for step, count in steps:
        if step == "come" and (count := min(count, line.outstanding)):
            line.outstanding -= count
            permits.came(count, count)
        elif step == "claim" and (count := min(count, permits.queued - claimed)) > 0:
            claimed += count
            permits.claimed(count)
        elif step == "take" and (count := min(count, permits.queued)):
            claimed -= min(count, claimed)
            permits.taken(count)
        elif step == "drop":
            claimed = 0
            permits.left_out(permits.dropped(permits.queued))
        elif step == "again":
            line.outstanding = claimed = 0
            permits.begin(cast(Any, line))
            claimed = 0
        room = MOST - (permits.queued - claimed)
        assert line.outstanding <= max(
            room, 0
        )  # what is claimed is taken when the application runs
        assert line.outstanding > room - MOST / 2  # and no more than half of it is kept back


def test_what_is_claimed_is_given_back_once() -> None:
    permits, line = begun()
    permits.came(10, 10)
    permits.claimed(10)
    assert line.flows == [10, 10]
    permits.taken(10)
    assert line.flows == [10, 10]
    permits.came(10, 10)
    permits.taken(10)
    assert line.flows == [10, 10, 10]


def test_without_a_queue_nothing_is_granted_ahead() -> None:
    permits, line = begun(0)
    permits.came(1, 1)
    permits.claimed(1)
    permits.taken(1)
    assert line.flows == []


@pytest.mark.parametrize("paused", [False, True])
def test_a_paused_consumer_is_sent_nothing_until_it_resumes(paused: bool) -> None:
    permits, line = begun()
    permits.is_paused = paused
    permits.came(10, 10)
    permits.taken(10)
    assert line.flows == ([10] if paused else [10, 10])
    permits.resume()
    assert line.flows == [10, 10]
