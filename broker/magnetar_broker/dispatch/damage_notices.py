"""Tells the consumers of a shared subscription of damaged entries, once for each consumer."""

from collections.abc import Callable, Iterable

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.entry_source import EntrySource
from magnetar_storage.log.damage import MOST, Damage

Place = tuple[int, int, int]
"""The segment, the first and the last of some entries."""


class DamageNotices:
    """The damage that delivery has skipped, and the consumers that were notified of it."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._found: dict[Place, Damage] = {}
        self._told: dict[Consumer, set[Place]] = {}

    def __bool__(self) -> bool:
        """Return whether delivery has passed over damage."""
        return bool(self._found)

    def give_up(self, source: EntrySource) -> range:
        """Return the entries that damage has made unreadable, and note it to tell consumers.

        Empty without damage.  Beyond `MOST` ranges no more are told.
        """
        damage = source.damage
        if damage is not None and len(self._found) < MOST:
            self._found[damage.segment, damage.first, damage.last] = damage
        return source.give_up()

    def drop(self, was_set_aside: Callable[[Damage], bool]) -> None:
        """Forget damage of which nobody needs to know any more."""
        self._found = {place: one for place, one in self._found.items() if not was_set_aside(one)}

    def tell(self, consumers: Iterable[Consumer]) -> None:
        """Tell those consumers that have room, and so wait for more."""
        for consumer in consumers:
            # One without room does not wait yet: other entries may come for it first.
            if not consumer.can_take():
                continue
            # By consumer, since another may join later, and has to be told of the same damage.
            told = self._told.setdefault(consumer, set())
            for place in self._found.keys() - told:
                # promise: consumers that share a subscription are told of damage
                consumer.connection.damaged(consumer.id, self._partition, self._found[place])
            told.update(self._found)

    def try_again(self) -> None:
        """Forget the damage found, so that the entries are read again."""
        self._found.clear()

    def left(self, consumer: Consumer) -> None:
        """Forget a consumer that has left."""
        self._told.pop(consumer, None)
