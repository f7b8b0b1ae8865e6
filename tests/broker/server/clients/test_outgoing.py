"""The queue between two workers compared with a list of the expected fate of each item."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar_broker.server.clients.outgoing import Outgoing

LIMIT, WINDOW, SECONDS = 6, 3, 10.0


class Queue(RuleBasedStateMachine):
    """A model of the queue; items are numbered in the order in which they were added."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: Outgoing[int] = Outgoing(LIMIT, WINDOW, SECONDS)
        self.now = 0.0
        self.added: dict[int, float] = {}  # item to the time it was added
        self.waiting: list[int] = []
        self.sent: list[int] = []
        self.done: list[int] = []
        self.ready = False

    @rule()
    def add(self) -> None:
        item = len(self.added)
        has_room = len(self.waiting) + len(self.sent) < LIMIT
        assert self.queue.add(item, self.now) == has_room
        if has_room:
            self.added[item] = self.now
            self.waiting.append(item)

    @rule()
    def send(self) -> None:
        following = self.queue.following()
        if not self.ready or not self.waiting or len(self.sent) == WINDOW:
            assert following is None
        else:
            assert following == self.waiting[0]
            self.queue.sent()
            self.sent.append(self.waiting.pop(0))

    @precondition(lambda self: not self.ready)
    @rule()
    def announce(self) -> None:
        assert self.queue.acknowledged(0) == []
        assert self.queue.acknowledged(1) == []
        self.ready = True

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.sent)))
        assert self.queue.acknowledged(count) == self.sent[:count]
        self.done += self.sent[:count]
        del self.sent[:count]

    @rule()
    def lose(self) -> None:
        self.queue.lost()
        self.ready = False
        self.waiting = self.sent + self.waiting
        self.sent = []

    @rule(seconds=st.sampled_from([0.0, 1.0, 9.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def expire(self) -> None:
        late = [item for item in self.waiting if self.added[item] + SECONDS <= self.now]
        assert self.queue.expire(self.now) == late
        self.waiting = self.waiting[len(late) :]
        self.done += late

    @precondition(lambda self: self.added)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(list(self.added)))
        assert self.queue.remove(item) == (item in self.waiting)
        if item in self.waiting:
            self.waiting.remove(item)
            self.done.append(item)

    @rule()
    def clear(self) -> None:
        assert self.queue.clear() == (self.waiting, self.sent)
        self.done += self.waiting + self.sent
        self.waiting, self.sent = [], []

    @invariant()
    def nothing_is_lost_or_twice(self) -> None:
        assert sorted(self.done + self.sent + self.waiting) == list(self.added)
        assert self.queue.items() == self.sent + self.waiting
        assert self.queue.is_ready == self.ready
        assert len(self.queue) == len(self.sent) + len(self.waiting)
        first = self.waiting[0] if self.waiting else None
        assert self.queue.deadline == (None if first is None else self.added[first] + SECONDS)


TestQueue = Queue.TestCase
