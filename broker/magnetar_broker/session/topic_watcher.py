"""What a client that watches a list of topics is told."""

from collections.abc import Sequence
from typing import Any, Protocol

from magnetar_broker.names.topic_lists import Change, TopicList
from magnetar_proto import PulsarApi_pb2 as pb


class Listening(Protocol):
    """A session, as its watchers see it."""

    def has_room(self) -> bool:
        """Whether the client keeps up; if not, `write` is called when it does."""

    def reply(self, message: Any) -> None:
        """Queue one command."""


class TopicWatcher:
    """Tells a client of a list's changes.

    While the client does not read, changes gather: what came and went again is forgotten, so
    that there are never more than names in the two lists, the client's and the broker's.
    """

    def __init__(self, session: Listening, watcher_id: int, watched: TopicList) -> None:
        self._session = session
        self._id = watcher_id
        self._list = watched
        self._new: set[str] = set()
        self._deleted: set[str] = set()
        watched.add(self)

    def told(self, changes: list[Change]) -> None:
        """Names that came and went, in their order."""
        for name, exists in changes:
            if exists:
                self._new.add(name)
            elif name in self._new:
                self._new.remove(name)
            else:
                self._deleted.add(name)
        self.write()

    def write(self) -> None:
        """Tell the client, if it has room: what went before what came, for both may be the same."""
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
        """Tell nothing any more."""
        self._list.watchers.discard(self)
