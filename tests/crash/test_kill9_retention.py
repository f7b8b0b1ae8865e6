"""Kills while segments roll over, expire and are deleted: what was confirmed holds."""

import http.client
import threading
from collections.abc import Callable
from random import Random

import pytest

from admin_http import Admin
from effort import part_of
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from raw_client import Closed, RawClient
from running_broker import RunningBroker

TOPIC = "persistent://public/default/kept"
PATH = "persistent/public/default/kept"
SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "5",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
}
CYCLES = part_of(9, least=3)
LOST = (OSError, http.client.HTTPException, Closed)
"""What a client sees of a kill."""


class Books:
    """Messages are numbered; the subscription has skipped all before one of them."""

    def __init__(self) -> None:
        self.sent = self.stored = 0
        self.skip_asked = self.skip_confirmed = 0

    def check(self, first: int, after: int) -> None:
        """A subscription got everything from one message to before another one."""
        assert self.skip_confirmed <= first <= self.skip_asked
        assert self.stored <= after <= self.sent
        self.sent = self.stored = after
        self.skip_asked = self.skip_confirmed = first


def post(broker: RunningBroker, method: str, path: str) -> None:
    assert Admin(broker).ask(method, f"{PATH}/{path}").status in (200, 204)


def live(broker: RunningBroker, books: Books, dice: Random) -> None:
    """Publish, skip and delete until the broker is killed."""
    with RawClient(broker.port) as client:
        client.produce(TOPIC)
        while True:
            for _ in range(dice.randrange(12)):
                number, books.sent = books.sent, books.sent + 1
                client.publish(number, b"%d" % number)
                books.stored = books.sent
            count = dice.randrange(10)
            what = dice.choice([f"subscription/sub/skip/{count}"] * 3 + ["trim", "truncate"])
            before = books.skip_asked
            if what.startswith("sub"):
                books.skip_asked = min(before + count, books.stored)
            elif what == "truncate":
                books.skip_asked = books.stored
            post(broker, "DELETE" if what == "truncate" else "POST", what)
            books.skip_confirmed = books.skip_asked


def look(broker: RunningBroker, books: Books) -> None:
    """What the subscription has after a kill; one more message shows where it ends."""
    with RawClient(broker.port) as client:
        client.produce(TOPIC)
        client.publish(books.sent, b"end")
        client.subscribe(TOPIC, "sub", pb.CommandSubscribe.Shared)
        client.flow(1_000_000)
        got: list[int] = []
        while (payload := payload_of(client)) != b"end":
            got.append(int(payload))
        books.check(got[0], got[-1] + 1) if got else books.check(books.stored, books.stored)
        assert got == list(range(books.skip_confirmed, books.stored))
    post(broker, "POST", "subscription/sub/skip_all")
    books.sent = books.stored = books.skip_asked = books.skip_confirmed = 0


def payload_of(client: RawClient) -> bytes:
    entry = client.next_message().entry
    return entry[parse_metadata(entry)[1] :]


def kill(broker: RunningBroker, killed: threading.Event) -> None:
    killed.set()
    broker.kill()


def test_kill_9_while_segments_roll_over_and_go(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(**SETTINGS)
    dice, books, confirmed = Random(1), Books(), 0
    with RawClient(broker.port) as client:
        client.subscribe(TOPIC, "sub", pb.CommandSubscribe.Shared)
    for _ in range(CYCLES):
        killed = threading.Event()
        killer = threading.Timer(dice.uniform(0.1, 0.6), kill, (broker, killed))
        killer.start()
        with pytest.raises(LOST):
            live(broker, books, dice)
        assert killed.is_set(), "it was refused, and not killed"
        confirmed += books.skip_confirmed
        killer.join()
        broker.start()
        look(broker, books)
    assert confirmed > 0
    assert broker.stop() == 0
