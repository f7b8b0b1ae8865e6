"""The position at which a consumer without durable subscription resumes. Pure."""

from typing import NamedTuple

from magnetar.consuming.options import Subscription
from magnetar.messages import LAST_BATCH_INDEX, Entry
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_proto.names import TopicName

WHOLE_ENTRY = LAST_BATCH_INDEX + 1
"""A batch index after every message of an entry."""


class _State(NamedTuple):
    at: MessageId | None
    seen: tuple[int, int, int]
    with_last: bool
    from_ms: int | None
    until: tuple[int, int] | None


class ResumePosition:
    """The position of a reader, which the broker does not store: each registration names it.

    Durable subscriptions do not need it, and ids of topics that are not persistent have no
    order: `is_on` is false for both.
    """

    def __init__(self, topic: str, subscription: Subscription) -> None:
        self.is_on = subscription.start is not None and TopicName.parse(topic).is_persistent
        self.at = _first_entry(subscription.start, subscription.start_inclusive)
        """The entry to start with, as the broker is told."""
        self._seen = _seen_before(subscription.start, subscription.start_inclusive)
        self._with_last = subscription.start_inclusive
        """Whether "latest" means the last message, and not the position after it."""
        self._from_ms = subscription.start_time_ms if subscription.start is not None else None
        self._until: tuple[int, int] | None = None
        """The last entry that a start by time skips; None until it is known."""

    def state(self) -> _State:
        """Return the state, for `restore` if a seek fails."""
        return _State(self.at, self._seen, self._with_last, self._from_ms, self._until)

    def restore(self, state: _State) -> None:
        self.at, self._seen, self._with_last, self._from_ms, self._until = state

    def sought(self, target: MessageId | int, inclusive: bool | None = None) -> None:
        """Note a seek to a message, to the position after it, or to a publish time.

        Without `inclusive` it is with the message, and for LATEST after the last one.
        """
        if self.at is None:
            return  # the broker stores the position of a durable subscription
        self._until = None
        if isinstance(target, int):
            # `describe` sends the time in whole seconds, and `is_seen` skips what is earlier.
            self.at, self._seen, self._from_ms = EARLIEST, EARLIEST[:3], target
        else:
            self.at, self._from_ms = _first_entry(target, inclusive is not False), None
            self._seen = _seen_before(target, inclusive is not False)
            self._with_last = bool(inclusive)

    @property
    def is_open(self) -> bool:
        """Whether the start depends on the end of the topic: `pin` must then be called."""
        by_time = self._from_ms is not None and self._until is None
        return self.is_on and (self.at == LATEST or by_time)

    def pin(self, last: MessageId, mark: MessageId | None) -> bool:
        """Replace "latest", or a time, by a message id, which survives a reconnect.

        Call it before any delivery with the id of the topic's last message, and the one before
        which the broker delivers nothing.  Returns whether to register again, to start there.
        """
        if self._from_ms is not None:
            # Clocks of producers differ: messages published from now on must not be skipped.
            self._until = (last.ledger, last.entry)
            if mark is not None:
                # Later registrations name this id, so that they all start at the same place.
                self.at, self._seen = MessageId(*mark[:2]), (*mark[:2], WHOLE_ENTRY)
            return False
        if last.entry < 0:  # the topic is empty, so every message is yet to come
            self.at, self._seen = EARLIEST, EARLIEST[:3]
            return False
        self.at, self._seen = last, _seen_before(last, self._with_last)
        # LATEST has registered after the last message; to include that, start at its id.
        return self._with_last

    def describe(self, command: pb.CommandSubscribe, now_ms: int) -> None:
        """Set the start position in the command."""
        if self.at is None:
            return
        command.start_message_id.CopyFrom(MessageId(*self.at[:2]).to_pb())
        if self._from_ms is not None and self.at.is_earliest:
            # The duration is in whole seconds: messages published before the time are skipped here.
            back_ms = now_ms - self._from_ms
            command.start_message_rollback_duration_sec = max(back_ms, 0) // 1000 + 1

    def is_seen(self, entry: Entry) -> bool:
        """Tell whether the whole entry lies before the start, or was received already."""
        if (
            self._from_ms is not None
            and entry.stored_time_ms < self._from_ms
            and (self._until is None or entry.position <= self._until)
        ):
            self.at, self._seen = MessageId(*entry.position), (*entry.position, WHOLE_ENTRY)
            return True
        return (*entry.position, LAST_BATCH_INDEX) <= self._seen

    def is_before(self, message_id: MessageId) -> bool:
        """Return whether this message follows all received ones."""
        return message_id[:3] > self._seen

    def first_index(self, position: tuple[int, int]) -> int | None:
        """Return the index of the first wanted message; None if it is the entry's first."""
        # The broker delivers whole entries, so a start within a batch is completed here.
        return self._seen[2] + 1 if position == self._seen[:2] else None

    def see(self, position: tuple[int, int]) -> None:
        """Record that the entry was received."""
        self._seen = (*position, WHOLE_ENTRY)
        self.at = MessageId(*position)
        self._from_ms = None  # the first message that counts has replaced the time

    def see_unreadable(self, position: tuple[int, int]) -> bool:
        """Record an entry that was received and cannot be decoded; tell whether it is new."""
        if (*position, LAST_BATCH_INDEX) <= self._seen:
            return False
        self.see(position)
        return True


def _first_entry(start: MessageId | None, inclusive: bool) -> MessageId | None:
    """Return the entry to start with: the first one if a message is in several."""
    return start if start is None or not inclusive else MessageId(*start.begins_at)


def _seen_before(start: MessageId | None, inclusive: bool) -> tuple[int, int, int]:
    """Return ledger, entry and batch index of the last message that must not be delivered."""
    if start is None or start.is_earliest or start.is_latest:
        return EARLIEST[:3]
    if inclusive:
        return *start.begins_at, start.batch_index - 1
    return start.ledger, start.entry, start.batch_index if start.batch_index >= 0 else WHOLE_ENTRY
