"""What must be on a disk: a model of topics and cursors that shares nothing with the engine."""

from collections.abc import Iterable
from dataclasses import dataclass, field

State = tuple[frozenset[int], frozenset[tuple[int, int]]] | None
"""A cursor's acknowledged offsets and the masks of its batches; None where there is none."""


class CursorModel:
    """A cursor by name: all the states it had since the last one known to be durable."""

    def __init__(self) -> None:
        self.acked: set[int] = set()
        self.masks: dict[int, int] = {}
        self.exists = False
        self._states: list[State] = [None]
        self._forgotten = 0

    def copy(self) -> "CursorModel":
        twin = CursorModel()
        twin.acked, twin.masks, twin.exists = set(self.acked), dict(self.masks), self.exists
        twin._states, twin._forgotten = self._states[:], self._forgotten
        return twin

    def create(self, mark_delete: int) -> int:
        self.exists = True
        return self.reset(mark_delete)

    def delete(self) -> int:
        self.exists = False
        self.acked, self.masks = set(), {}
        return self._changed()

    def ack(self, offsets: Iterable[int]) -> int:
        for offset in offsets:
            self.acked.add(offset)
            self.masks.pop(offset, None)
        return self._changed()

    def ack_batch(self, offset: int, unacked_mask: int) -> int:
        if offset not in self.acked:
            left = self.masks.get(offset, unacked_mask) & unacked_mask
            if not left:
                return self.ack([offset])
            self.masks[offset] = left
        return self._changed()

    def reset(self, mark_delete: int) -> int:
        self.acked, self.masks = set(range(mark_delete + 1)), {}
        return self._changed()

    def durable(self, number: int) -> None:
        """The state of that number was reported durable: no earlier one may come back."""
        gone = number - self._forgotten
        if gone > 0:
            del self._states[:gone]
            self._forgotten = number

    def check(self, found: State, whose: str) -> None:
        """What is there is one of the states; from now on it is the only one."""
        assert found in self._states, f"{whose}: {found} is none of {self._states}"
        self._forgotten += len(self._states)
        self._states = [found]
        self.exists = found is not None
        acked, masks = found or (frozenset[int](), frozenset[tuple[int, int]]())
        self.acked, self.masks = set(acked), dict(masks)

    def _changed(self) -> int:
        state = (frozenset(self.acked), frozenset(self.masks.items()))
        self._states.append(state if self.exists else None)
        return self._forgotten + len(self._states) - 1


@dataclass
class TopicModel:
    """What was asked of a topic, and what was confirmed."""

    key: str
    appended: list[tuple[bytes, int]] = field(default_factory=list)
    """Payload and messages of every entry, from offset 0 on."""
    durable: int = 0
    """Entries whose append was reported durable."""
    trimmed: int = 0
    trim_asked: int = 0
    """The first offset is between the two."""
    cursors: dict[str, CursorModel] = field(default_factory=dict)
    delete_asked: bool = False
    deleted: bool = False

    def copy(self) -> "TopicModel":
        return TopicModel(
            self.key, self.appended[:], self.durable, self.trimmed, self.trim_asked,
            {name: cursor.copy() for name, cursor in self.cursors.items()},
            self.delete_asked, self.deleted,
        )  # fmt: skip

    def check(self, first: int, found: list[tuple[bytes, int]], messages_end: int) -> None:
        """Confirmed is a part of what is there, which is the beginning of what was appended."""
        end = first + len(found)
        assert self.trimmed <= first <= self.trim_asked, f"{self.key} begins at {first}"
        assert end >= self.durable, f"{self.key} ends at {end}, confirmed were {self.durable}"
        assert found == self.appended[first:end], f"{self.key}: not what was appended"
        del self.appended[end:]
        assert messages_end == sum(count for _, count in self.appended)
        self.durable, self.trimmed = end, first
