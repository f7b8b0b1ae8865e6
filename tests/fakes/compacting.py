"""A topic that is compacted, and the contents expected of it."""

from collections.abc import Sequence
from typing import Any

from fakes.keyed import Message, batch_entry, messages_in, single_entry
from fakes.topics import TopicWorld
from magnetar_broker.compaction.topic_compaction import CompactionStatus
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.ids import MessageId
from magnetar_storage.log.roll_limits import RollLimits

BY_SEVEN = RollLimits(max_entries=7, min_age_ms=0)
PERMITS = 100_000
Sent = tuple[list[Message], int | None]
"""The messages of an entry; and its compression, if it is a batch."""


class Compacting(TopicWorld):
    """A topic, and the messages published to it."""

    def __init__(self, limits: TopicLimits | None = None) -> None:
        super().__init__(limits, roll=BY_SEVEN, cache_bytes=0)
        self.published: list[list[Message]] = []
        """The published messages of each entry."""
        self.ids: list[tuple[int, int]] = []
        self.horizon = 0

    def send_all(self, sent: Sequence[Sent]) -> None:
        for batch, kind in sent:
            payload = single_entry(*batch[0]) if kind is None else batch_entry(batch, kind)
            self.publish(payload, counts=[len(batch)])
            self.published.append(batch)
            self.ids.append(self.topic.log.position(self.topic.log.end - 1))

    def compact(self) -> None:
        end, first = self.topic.log.end, self.topic.log.first_offset
        for offset in range(self.horizon, end):
            if offset < first or offset in self.topic.log.holes:
                self.published[offset] = []  # it was not needed, and is deleted already
        assert self.do(self.topic.compaction.start())
        self.clock.pump()
        self.clock.advance(3600)
        assert self.topic.compaction.status is CompactionStatus.SUCCESS
        assert self.topic.log.record.compacted is not None
        assert self.topic.log.record.compacted.horizon == end
        assert not self.topic.log.record.trash
        assert self.store.ids() == self.topic.log.record.listed
        self.horizon = end

    def expected(self) -> list[tuple[tuple[int, int], int, Message]]:
        """Return position, index and message of everything that must be delivered."""
        last: dict[str, tuple[int, int]] = {}
        for offset, batch in enumerate(self.published[: self.horizon]):
            for index, (key, value) in enumerate(batch):
                if key is not None:
                    last.pop(key, None)
                    if value:
                        last[key] = (offset, index)
        winners = set(last.values())
        return [
            (self.ids[offset], index, message)
            for offset, batch in enumerate(self.published)
            for index, message in enumerate(batch)
            if (offset, index) in winners or (self.horizon <= offset and self.is_there(offset))
        ]

    def is_there(self, offset: int) -> bool:
        log = self.topic.log
        return offset >= log.first_offset and offset not in log.holes

    def hold_few(self, rest: int) -> None:
        """Let another subscription need every fifth message only."""
        consumer = self.subscribe(sub="other", earliest=True)
        log = self.topic.log
        acked = [o for o in range(log.first_offset, log.end) if o % 5 != rest]
        self.ack(consumer, *acked)
        consumer.close()

    def read(self, **asked: Any) -> list[tuple[tuple[int, int], int, Message]]:
        asked = {"durable": False, "start": MessageId(-1, -1), "earliest": True, **asked}
        consumer = self.subscribe(sub="reader", permits=3, read_compacted=True, **asked)
        got = []
        while found := self.got(consumer):
            for one in found:
                for index, message in enumerate(messages_in(one.payload)):
                    if message is not None:
                        got.append(((one.ledger, one.entry), index, message))
            self.flow(consumer, PERMITS)
        consumer.close()
        self.clock.pump()
        return got

    def last_id(self) -> MessageId:
        consumer = self.subscribe(
            sub="asks", durable=False, start=MessageId(-1, -1), read_compacted=True
        )
        last = self.do(self.subscription("asks").last_message_id(read_compacted=True))
        consumer.close()
        return last
