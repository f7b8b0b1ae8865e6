"""The way of changes to a watch."""

from collections.abc import AsyncGenerator, Sequence

from fakes.world import ManualClock, run
from magnetar_broker.server.metadata_stores.engine import Batch, Position
from magnetar_broker.server.metadata_stores.feeds import feed
from magnetar_storage.errors import AccessDenied, StorageError, Unavailable
from magnetar_storage.interfaces import Change


def batch(*numbers: int) -> Batch:
    return Batch(numbers[-1], [Change(f"/{number}", b"", number) for number in numbers])


class Server:
    """Sends what the test wants: for each time it is asked, batches and then an error, or none."""

    def __init__(self, *streams: tuple[Sequence[Batch], StorageError | None]) -> None:
        self.asked: list[Position | None] = []
        self.delivered: list[Sequence[Change] | None] = []
        self.pauses: list[float] = []
        self._streams = list(streams)

    async def changes(self, after: Position | None) -> AsyncGenerator[Batch]:
        self.asked.append(after)
        batches, error = self._streams.pop(0)
        for one in batches:
            yield one
        if error is not None:
            raise error

    async def deliver(self, changes: Sequence[Change] | None) -> bool:
        self.delivered.append(changes)
        return bool(self._streams)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def run(self) -> None:
        run(feed(self.changes, self.deliver, self.sleep), ManualClock())


LAST: tuple[Sequence[Batch], None] = ([Batch(99, None)], None)


def test_changes_go_on_where_they_were_interrupted() -> None:
    server = Server(
        ([Batch(5, None), batch(6, 7)], Unavailable("gone")),
        ([batch(8)], None),
        ([], AccessDenied("not now")),
        LAST,
    )
    server.run()
    assert server.asked == [None, 7, 8, 8]
    assert server.delivered == [None, batch(6, 7).changes, batch(8).changes, None]


def test_a_server_that_knows_no_longer_what_was_changed_has_all_keys_listed() -> None:
    server = Server(([Batch(5, None)], Unavailable("gone")), ([Batch(50, None)], None), LAST)
    server.run()
    assert server.asked == [None, 5, 50]
    assert server.delivered == [None, None, None]


def test_pauses_double_until_the_server_is_back() -> None:
    away: tuple[Sequence[Batch], StorageError] = ([], Unavailable("away"))
    server = Server(*[away] * 7, ([Batch(5, None)], None), away, LAST)
    server.run()
    assert server.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 0.05, 0.1]
