"""Where a consumer without a durable subscription resumes, and what it has seen. Pure."""

from typing import NamedTuple

from magnetar.messages import LAST_BATCH_INDEX, Entry
from magnetar.subscription import Subscription
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_proto.names import TopicName

WHOLE_ENTRY = LAST_BATCH_INDEX + 1
"""A batch index behind every message of an entry."""


class _State(NamedTuple):
    at: MessageId | None
    seen: tuple[int, int, int]
    with_last: bool
    from_ms: int | None
    until: tuple[int, int] | None


class Resuming:
    """The broker keeps no position for it: it says where to go on whenever it registers.

    A durable subscription needs nothing of this, and ids of a topic that is not persistent define
    no order: `is_on` is false for both.
    """

    def __init__(self, topic: str, subscription: Subscription) -> None:
        self.is_on = subscription.start is not None and TopicName.parse(topic).is_persistent
        self.at = _first_entry(subscription.start, subscription.start_inclusive)
        """The entry to begin with, as far as the broker is told."""
        self._seen = _seen_before(subscription.start, subscription.start_inclusive)
        self._with_last = subscription.start_inclusive
        """Whether "latest" is the last message, and not what follows it."""
        self._from_ms = subscription.start_time_ms if subscription.start is not None else None
        self._until: tuple[int, int] | None = None
        """The last entry that a start by time leaves out; None until it is known."""

    def state(self) -> _State:
        """To be given to `restore` if a seek fails."""
        return _State(self.at, self._seen, self._with_last, self._from_ms, self._until)

    def restore(self, state: _State) -> None:
        self.at, self._seen, self._with_last, self._from_ms, self._until = state

    def sought(self, target: MessageId | int, inclusive: bool | None = None) -> None:
        """Continue with a message, or behind it, or with what was published since a time.

        Without `inclusive` it is with the message, and for LATEST behind the last one.
        """
        if self.at is None:
            return
        self._until = None
        if isinstance(target, int):
            self.at, self._seen, self._from_ms = EARLIEST, EARLIEST[:3], target
        else:
            self.at, self._from_ms = _first_entry(target, inclusive is not False), None
            self._seen = _seen_before(target, inclusive is not False)
            self._with_last = bool(inclusive)

    @property
    def is_open(self) -> bool:
        """Whether where to begin depends on the end of the topic: `pin` is to be told that."""
        by_time = self._from_ms is not None and self._until is None
        return self.is_on and (self.at == LATEST or by_time)

    def pin(self, last: MessageId, mark: MessageId | None) -> bool:
        """Have "latest", or a time, mean the same after a reconnect.

        It is told before any delivery the id of the topic's last message, and the one before
        which the broker delivers nothing.  Returns whether it must register again, to begin there.
        """
        if self._from_ms is not None:
            # Clocks of producers differ: a message that is published from now on is never left out.
            self._until = (last.ledger, last.entry)
            if mark is not None:
                self.at, self._seen = MessageId(*mark[:2]), (*mark[:2], WHOLE_ENTRY)
            return False
        if last.entry < 0:
            self.at, self._seen = EARLIEST, EARLIEST[:3]
            return False
        self.at, self._seen = last, _seen_before(last, self._with_last)
        return self._with_last

    def describe(self, command: pb.CommandSubscribe, now_ms: int) -> None:
        """Say where to begin."""
        if self.at is None:
            return
        command.start_message_id.CopyFrom(MessageId(*self.at[:2]).to_pb())
        if self._from_ms is not None and self.at.is_earliest:
            # Whole seconds back from now: what was published before the time is left out here.
            back_ms = now_ms - self._from_ms
            command.start_message_rollback_duration_sec = max(back_ms, 0) // 1000 + 1

    def is_seen(self, entry: Entry) -> bool:
        """Whether nothing of the entry is wanted any more, or yet."""
        if (
            self._from_ms is not None
            and entry.metadata.publish_time < self._from_ms
            and (self._until is None or entry.position <= self._until)
        ):
            self.at, self._seen = MessageId(*entry.position), (*entry.position, WHOLE_ENTRY)
            return True
        return (*entry.position, LAST_BATCH_INDEX) <= self._seen

    def is_before(self, message_id: MessageId) -> bool:
        """Whether this message is behind all that was seen."""
        return message_id[:3] > self._seen

    def first_index(self, position: tuple[int, int]) -> int | None:
        """The first message that is wanted, if not the entry's first."""
        return self._seen[2] + 1 if position == self._seen[:2] else None

    def see(self, position: tuple[int, int]) -> None:
        """The entry was received."""
        self._seen = (*position, WHOLE_ENTRY)
        self.at = MessageId(*position)
        self._from_ms = None

    def see_unreadable(self, position: tuple[int, int]) -> bool:
        """The entry was received, and cannot be decoded; whether it is the first time."""
        if (*position, LAST_BATCH_INDEX) <= self._seen:
            return False
        self.see(position)
        return True


def _first_entry(start: MessageId | None, inclusive: bool) -> MessageId | None:
    """Where to begin: a message in several entries is read from the first of them on."""
    return start if start is None or not inclusive else MessageId(*start.begins_at)


def _seen_before(start: MessageId | None, inclusive: bool) -> tuple[int, int, int]:
    """Ledger, entry and batch index of the last message that must not be delivered."""
    if start is None or start.is_earliest or start.is_latest:
        return EARLIEST[:3]
    if inclusive:
        return *start.begins_at, start.batch_index - 1
    return start.ledger, start.entry, start.batch_index if start.batch_index >= 0 else WHOLE_ENTRY
