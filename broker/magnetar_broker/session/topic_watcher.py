"""Notifies a client of the changes in a list of topics that it watches (PIP-145)."""

from collections.abc import Sequence
from typing import Any, Protocol

from magnetar_broker.names.interface import WatchedTopics
from magnetar_broker.names.topic_lists import Change
from magnetar_proto import PulsarApi_pb2 as pb


class Recipient(Protocol):
    """The parts of a session that its watchers use."""

    def has_room(self) -> bool:
        """Whether the client keeps up; if not, `write` is called once it does."""

    def reply(self, message: Any) -> None:
        """Queue one command."""


class TopicWatcher:
    """Sends the changes of a list to a client.

    While the client does not read, changes accumulate.  A name that was added and deleted again
    is dropped, so that there are never more names than in the client's list and the broker's.
    """

    def __init__(
        self, session: Recipient, watcher_id: int, namespace: str, watched: WatchedTopics
    ) -> None:
        self.namespace = namespace
        self._session = session
        self._id = watcher_id
        self._list = watched
        self._new: set[str] = set()
        self._deleted: set[str] = set()
        watched.add(self)

    def changed(self, changes: list[Change]) -> None:
        """Queue the names that were added or deleted, in this order."""
        for name, exists in changes:
            if exists:
                self._new.add(name)
            elif name in self._new:
                self._new.remove(name)
            else:
                self._deleted.add(name)
        self.write()

    def write(self) -> None:
        """Send the changes if the client has room: deletions first, as a name may be in both."""
        if not (self._new or self._deleted) or not self._session.has_room():
            return
        new, deleted = sorted(self._new), sorted(self._deleted)
        self._new, self._deleted = set(), set()
        if deleted:
            self._update(deleted_topics=deleted)
        if new:
            self._update(new_topics=new)

    def _update(self, **names: Sequence[str]) -> None:
        self._session.reply(
            pb.CommandWatchTopicUpdate(watcher_id=self._id, topics_hash=self._list.hash, **names)
        )

    def end(self) -> None:
        """Send nothing any more."""
        self._list.remove(self)
