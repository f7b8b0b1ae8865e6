"""What every client needs that changes a namespace and books the answers."""

import http.client
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

from admin_http import Admin, Answer
from crash.admin_books import LogBook, NamespaceBook
from crash.owners import Owners
from raw_client import Closed, RawClient
from running_broker import RunningBroker

LOST = (OSError, http.client.HTTPException, Closed)
"""What a client sees of a kill."""
FAMILIES = {"plain": False, "other": False, "parted": True}
"""Names of topics, and whether they are partitioned."""
STORY = 150


class Wrong(Exception):
    """The broker has answered what it must not."""


class Desk:
    """One namespace, its books, and a client.

    One operation at a time is without its answer when the broker dies: then the books hold what
    there may be (`candidates`), and the next check shows which it is.
    """

    def __init__(
        self,
        broker: RunningBroker,
        namespace: str,
        dice: Random,
        answered: Callable[[], None],
        struck: Callable[[], bool],
    ) -> None:
        """`answered` is called after every answer; `struck` returns whether a part of the broker
        was killed."""
        self.namespace = namespace
        self.done: dict[str, int] = {}
        """How often each operation was answered."""
        self.torn = 0
        """How often an operation had no answer and was not done or was, as it then turned out."""
        self.candidates = [NamespaceBook()]
        self.story: deque[str] = deque(maxlen=STORY)
        """What was asked last, to find the cause of a failure."""
        self._broker = broker
        self._dice = dice
        self._answered = answered
        self._struck = struck
        self._admin = Admin(broker)
        self._numbers = count()
        self._sent: dict[int, tuple[str, int, int]] = {}
        """Family, partition and birth of the log of each message of this life."""
        self._flying: set[int] = set()
        """Messages of the last producer whose receipts are awaited."""
        self._deletes = False
        """Whether the last request was a deletion."""
        self._producer = 0
        self._clients: Owners
        self._sender: RawClient
        """The connection of the last producer."""

    @property
    def book(self) -> NamespaceBook:
        """What is sure at the moment."""
        return self.candidates[0]

    def _ask(
        self, method: str, path: str, after: NamespaceBook | None, body: object = None,
        also: tuple[NamespaceBook, ...] = (), refusals: tuple[int, ...] = (),
    ) -> Answer:  # fmt: skip
        """Have it done; `after` is the book's state then, `also` the possible ones meanwhile.

        With one of these `refusals` nothing has changed.
        """
        before = self.book
        before.let_go()
        self.candidates = [before, *also, *([after] if after is not None else [])]
        for one in self.candidates:
            one.let_go()
        self.story.append(f"{method} {path} {body}")
        self._deletes = method == "DELETE"
        answer = self._admin.ask(method, path, body)
        self._answered()
        what = f"{method} {path}: {answer}"
        self.story[-1] += f": {answer.status}"
        if answer.status not in (*refusals, 200, 204):
            raise Wrong(what)
        changed = after is not None and answer.status in (200, 204)
        self.candidates = [after if changed and after is not None else before]
        self.book.let_go()
        return answer

    def _read(self, path: str) -> Any:
        """The broker's answer."""
        answer = self._admin.get(path)
        if answer.status != 200:
            raise Wrong(f"GET {path}: {answer}")
        return answer.json

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    # What there is ------------------------------------------------------------------

    def _family(self) -> str:
        return self._dice.choice(sorted(self.book.families))

    def _some_log(self, book: NamespaceBook, subscribed: bool = False) -> tuple[str, int, LogBook]:
        """Any, or one that has subscriptions, if there is one."""
        logs = [
            (name, index, log)
            for name, family in sorted(book.families.items())
            for index, log in sorted(family.logs.items())
        ]
        wanted = [one for one in logs if one[2].subscriptions] if subscribed else []
        return self._dice.choice(wanted or logs)

    def _path(self, name: str, index: int = -1) -> str:
        part = f"-partition-{index}" if index >= 0 else ""
        return f"persistent/{self.namespace}/{name}{part}"

    def _url(self, name: str, index: int) -> str:
        return self._path(name, index).replace("/", "://", 1)

    def _logs(self, book: NamespaceBook) -> Iterator[LogBook]:
        for family in book.families.values():
            yield from family.logs.values()
