"""Permits: the broker sends no more than there is room for, and never stops while there is."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar.base.memory import MemoryLimit
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.permits import Permits
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode
from magnetar_proto.frames import FrameDecoder

MOST = 10
LIMIT = 100
"""Of memory, in bytes."""


@dataclass
class FlowRecorder:
    """Both the registration and its connection; counts what FLOW has granted."""

    outstanding: int = 0
    flows: list[int] = field(default_factory=list)

    @property
    def connection(self) -> "FlowRecorder":
        return self

    def write(self, data: bytes) -> None:
        for _, buf, start, mid, _ in FrameDecoder(1 << 20).feed(data):
            command = decode(buf, start, mid)
            assert command.type == pb.BaseCommand.FLOW
            self.flows.append(command.flow.messagePermits)
            self.outstanding += command.flow.messagePermits

    write_now = write


class DemandingInbox(Inbox[Any]):
    """One whose application can be made to wait."""

    def demand(self) -> None:
        for ask in self._on_demand:
            ask()


class Flow:
    """The permits of a consumer, as its connection and its application change them."""

    def __init__(self, most: int = MOST, auto_scale: bool = False, paused: bool = False) -> None:
        self.recorder = FlowRecorder()
        self.inbox = DemandingInbox(MemoryLimit(LIMIT))
        registration = cast(Any, self.recorder)
        self.permits = Permits(1, registration, self.inbox, most, auto_scale)
        self.permits.is_paused = paused
        self.claimed = 0
        """Of what is queued."""
        self.begin()

    def begin(self) -> None:
        """Register on another connection."""
        self.recorder.outstanding = self.claimed = 0
        self.permits.begin(cast(Any, self.recorder))

    def come(self, count: int) -> None:
        """The broker sends so many messages, or as many as it may."""
        count = min(count, self.recorder.outstanding)
        self.recorder.outstanding -= count
        if count:
            self.permits.entry_received(count, count)

    def claim(self, count: int) -> None:
        count = min(count, self.permits.queued - self.claimed)
        self.claimed += count
        self.permits.claimed(count)

    def take(self, count: int) -> None:
        count = min(count, self.permits.queued)
        self.claimed -= min(count, self.claimed)
        self.permits.taken(count)

    def drop(self) -> None:
        """The broker delivers again what is queued."""
        self.claimed = 0
        self.permits.left_out(self.permits.dropped(self.permits.queued))

    def pause(self) -> None:
        self.permits.is_paused = True

    def run_short(self) -> None:
        """The memory limit is nearly reached, and then no more."""
        self.inbox.memory.receives(LIMIT)
        self.inbox.memory.receives(-LIMIT)

    @property
    def room(self) -> int:
        """What is claimed is taken when the application runs."""
        return self.permits.size.now - (self.permits.queued - self.claimed)

    @property
    def kept_back(self) -> int:
        """Permits that the broker could have been given."""
        return self.room - self.recorder.outstanding


COUNTED = st.tuples(st.sampled_from(("come", "claim", "take")), st.integers(1, 12))
STEPS = COUNTED | st.sampled_from((("drop",), ("begin",), ("pause",)))


def step(flow: Flow, name: str, *count: int) -> None:
    if name == "resume":
        flow.permits.resume()
    elif name == "demand":
        flow.inbox.demand()
    else:
        getattr(flow, name)(*count)


@settings(max_examples=examples(300))
@given(st.lists(STEPS | st.just(("resume",)), max_size=60), st.booleans())
def test_the_broker_is_granted_what_was_taken_and_no_more(
    steps: list[tuple[str]], paused: bool
) -> None:
    flow = Flow(paused=paused)
    for one in steps:
        step(flow, *one)
        assert flow.recorder.outstanding <= max(flow.room, 0)
        if not flow.permits.is_paused:
            assert flow.kept_back < MOST / 2, "no more than half of it is kept back"


@settings(max_examples=examples(300))
@given(
    st.lists(STEPS | st.sampled_from((("resume",), ("demand",), ("run_short",))), max_size=80),
    st.integers(1, 40),
)
def test_a_queue_that_grows_and_shrinks(steps: list[tuple[str]], most: int) -> None:
    flow = Flow(most, auto_scale=True)
    for one in steps:
        before = flow.recorder.outstanding
        step(flow, *one)
        assert 1 <= flow.permits.size.now <= most
        if flow.recorder.outstanding > before:
            assert flow.kept_back == 0
        if not flow.permits.is_paused:
            assert flow.kept_back * 2 < flow.permits.size.now


def test_a_queue_grows_when_it_was_full_and_the_application_waits() -> None:
    flow = Flow(16, auto_scale=True)
    for granted in (1, 2, 4, 8, 16, 16):
        assert flow.recorder.outstanding == granted
        flow.inbox.demand()
        assert flow.recorder.outstanding == granted, "it was not full"
        flow.come(granted)
        flow.take(granted)
        flow.inbox.demand()


def test_a_queue_does_not_grow_while_memory_is_short() -> None:
    flow = Flow(auto_scale=True)
    flow.come(1)
    flow.inbox.memory.receives(LIMIT)
    flow.take(1)
    flow.inbox.demand()
    assert flow.recorder.flows == [1, 1]
    flow.inbox.memory.receives(-LIMIT)
    flow.inbox.demand()
    assert flow.recorder.flows == [1, 1, 1]


def test_a_queue_shrinks_when_memory_is_short() -> None:
    flow = Flow()
    flow.run_short()
    flow.come(10)
    flow.take(7)
    assert flow.recorder.flows == [10], "half of what was taken is not given back"
    flow.take(3)
    assert flow.recorder.flows == [10, 5]


def test_what_is_claimed_is_given_back_once() -> None:
    flow = Flow()
    flow.come(10)
    flow.claim(10)
    assert flow.recorder.flows == [10, 10]
    flow.take(10)
    assert flow.recorder.flows == [10, 10]
    flow.come(10)
    flow.take(10)
    assert flow.recorder.flows == [10, 10, 10]


def test_without_a_queue_nothing_is_granted_ahead() -> None:
    flow = Flow(0)
    flow.permits.entry_received(1, 1)
    flow.permits.claimed(1)
    flow.permits.taken(1)
    assert flow.recorder.flows == []
    flow.inbox.demand()
    flow.inbox.demand()
    assert flow.recorder.flows == [2], "one, and one that came without being asked for"


@pytest.mark.parametrize("paused", [False, True])
def test_a_paused_consumer_is_sent_nothing_until_it_resumes(paused: bool) -> None:
    flow = Flow()
    flow.permits.is_paused = paused
    flow.come(10)
    flow.take(10)
    assert flow.recorder.flows == ([10] if paused else [10, 10])
    flow.permits.resume()
    assert flow.recorder.flows == [10, 10]


@pytest.mark.parametrize("queued", [0, 4, 8])
def test_a_consumer_that_is_registered_while_paused(queued: int) -> None:
    flow = Flow()
    flow.come(queued)
    flow.pause()
    flow.begin()
    assert flow.recorder.flows == [10]
    flow.permits.resume()
    assert flow.recorder.flows == ([10, 10 - queued] if queued < 8 else [10])
    flow.take(queued)
    assert flow.kept_back * 2 < MOST
    assert flow.recorder.outstanding > MOST / 2


def test_one_that_was_paused_from_the_start() -> None:
    flow = Flow(paused=True)
    assert flow.recorder.flows == []
    flow.permits.resume()
    assert flow.recorder.flows == [10]
