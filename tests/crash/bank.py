"""Transfers between three accounts, each in one transaction, under kills: no money appears or goes.

`make bank TRANSFERS=n KILLS=n [SEED=s] [BROKER_WORKERS=n]`.  Tellers consume requests, and for each
publish what leaves one account and what another one gets, and acknowledge the request, all in one
transaction.  Some they abort, some they forget.  The broker, or one of its processes, is killed
again and again.

A *snapshot* is what the topics of all accounts have when no transaction is open: their sum must be
0, and each transfer must be there as a whole, and once.  At the end there is one for each request.
"""

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

import magnetar
from admin_http import Admin
from magnetar.base.errors import MagnetarError
from running_broker import RunningBroker

ACCOUNTS = tuple(f"persistent://public/default/account-{name}" for name in "abc")
REQUESTS = "persistent://public/default/requests"
SUBSCRIPTION = "tellers"
TELLERS = 4
TRANSACTION_SECONDS = 10.0
"""A transaction that was forgotten holds back readers for so long."""
LONGEST_LIFE_SECONDS = 1.5
END_SECONDS = 1200.0
DECLINED, FORGOTTEN = 0.15, 0.02
"""How often a teller aborts a transfer, or leaves its transaction open."""


@dataclass
class Report:
    """What came of a run."""

    kills: int = 0
    snapshots: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of the tellers' transactions, as they know them."""
    transfers: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        outcomes = ", ".join(f"{count} {how}" for how, count in self.outcomes.most_common())
        return "\n".join([
            f"{self.transfers} transfers, {self.kills} kills, {self.snapshots} snapshots",
            f"transactions: {outcomes}",
            *self.problems,
        ])  # fmt: skip


class Declined(Exception):
    """The teller gives a transfer up."""


class Bank:
    """One run."""

    def __init__(self, broker: RunningBroker, seed: int, transfers: int, kills: int) -> None:
        self.report = Report()
        self._broker = broker
        self._random = random.Random(seed)
        self._transfers = transfers
        self._kills = kills
        self._is_open = asyncio.Event()
        """Whether tellers may begin transactions."""
        self._at_work = 0
        self._idle = asyncio.Condition()
        self._answered: set[int] = set()
        """The requests whose commit was answered."""

    async def go(self) -> Report:
        """Play it, and return what was found."""
        await self._publish_requests()
        self._is_open.set()
        tellers = [asyncio.create_task(self._teller(number)) for number in range(TELLERS)]
        try:
            for _ in range(self._kills):
                await asyncio.sleep(self._random.uniform(0, LONGEST_LIFE_SECONDS))
                await self._kill()
                if self._random.random() < 0.2:
                    await self._check_snapshot()
            async with asyncio.timeout(END_SECONDS):
                while await self._check_snapshot() < self._transfers:
                    await asyncio.sleep(1)
        except TimeoutError:
            self.report.problems.append(f"not done {END_SECONDS:g} s after the last kill")
        finally:
            for teller in tellers:
                teller.cancel()
            for ended in await asyncio.gather(*tellers, return_exceptions=True):
                if not isinstance(ended, asyncio.CancelledError):
                    self.report.problems.append(f"a teller ended: {ended!r}")
        return self.report

    async def _publish_requests(self) -> None:
        async with magnetar.connect(self._broker.service_url) as client:
            consumer = await client.subscribe(
                REQUESTS, SUBSCRIPTION, type="shared", initial_position="earliest"
            )
            await consumer.close()
            producer = await client.producer(REQUESTS)
            requests = [self._request(number) for number in range(self._transfers)]
            await asyncio.gather(*(producer.send(request) for request in requests))

    def _request(self, number: int) -> bytes:
        source, target = self._random.sample(range(len(ACCOUNTS)), 2)
        amount = self._random.randint(1, 1000)
        return json.dumps([number, source, target, amount]).encode()

    # Tellers --------------------------------------------------------------------------------

    async def _teller(self, number: int) -> None:
        """Work on requests; whatever fails, begin again with a connection of its own."""
        while True:
            with suppress(MagnetarError, OSError):
                async with magnetar.connect(
                    self._broker.service_url, operation_timeout_s=TRANSACTION_SECONDS
                ) as client:
                    await self._serve(client)
            self.report.outcomes["failed"] += 1
            await asyncio.sleep(0.1)

    async def _serve(self, client: magnetar.Client) -> None:
        consumer = await client.subscribe(
            REQUESTS, SUBSCRIPTION, type="shared", initial_position="earliest", queue_size=5
        )
        producers = [await client.producer(account, batching=None) for account in ACCOUNTS]
        while True:
            message = await consumer.receive()
            while not self._is_open.is_set():  # it may be closed again before this goes on
                await self._is_open.wait()
            async with self._working():
                await self._transfer(client, consumer, producers, message)

    async def _transfer(
        self, client: magnetar.Client, consumer: Any, producers: list[Any], message: Any
    ) -> None:
        number, source, target, amount = json.loads(message.value)
        chance = self._random.random()
        txn = client.transaction(TRANSACTION_SECONDS)
        try:
            await txn.begin()
            await producers[source].send(json.dumps([number, -amount]).encode(), txn=txn)
            await producers[target].send(json.dumps([number, amount]).encode(), txn=txn)
            consumer.ack(message, txn=txn)
            if chance < FORGOTTEN:
                self.report.outcomes["forgotten"] += 1
                raise ConnectionResetError("the teller leaves")
            if chance < DECLINED:
                await txn.abort()
                consumer.nack(message)
                return
            await txn.commit()
        except MagnetarError:
            if txn.state == "open":
                await txn.abort()
            raise
        finally:
            if txn.state != "open":
                self.report.outcomes[txn.state] += 1
        self._answered.add(number)

    def _working(self) -> "_Working":
        return _Working(self)

    # Kills and snapshots ------------------------------------------------------------------------

    async def _kill(self) -> None:
        """SIGKILL to the broker, or to one of its processes."""
        self.report.kills += 1
        processes = psutil.Process(self._broker.pid).children()
        if processes and self._random.random() < 0.8:
            self._random.choice(processes).kill()
        else:
            await asyncio.to_thread(self._broker.kill)
            await asyncio.to_thread(self._broker.start)

    async def _check_snapshot(self) -> int:
        """Wait until no transaction is open, and compare; how many transfers there are."""
        self._is_open.clear()
        try:
            async with self._idle:
                await self._idle.wait_for(lambda: self._at_work == 0)
            answered = frozenset(self._answered)
            await asyncio.to_thread(self._await_ends)
            found = await self._read()
            assert self._at_work == 0, "a teller has worked during a snapshot"
        finally:
            self._is_open.set()
        self.report.snapshots += 1
        self.report.transfers = len(found)
        self._compare(found, answered)
        return len(found)

    def _await_ends(self) -> None:
        """Return when no coordinator has a transaction that has not ended."""
        admin = Admin(self._broker)
        while True:
            with suppress(OSError):
                answer = admin.get("/admin/v3/transactions/coordinatorStats")
                if answer.status == 200 and not any(
                    one["ongoingTxnSize"] for one in answer.json.values()
                ):
                    return

    async def _read(self) -> dict[int, list[tuple[int, int]]]:
        """The committed entries of all accounts: account and amount, by transfer."""
        while True:
            with suppress(MagnetarError, OSError):
                async with magnetar.connect(self._broker.service_url) as client:
                    found: dict[int, list[tuple[int, int]]] = {}
                    for account, topic in enumerate(ACCOUNTS):
                        reader = await client.reader(topic)
                        while await reader.has_message_available():
                            message = await reader.read()
                            number, amount = json.loads(message.value)
                            found.setdefault(number, []).append((account, amount))
                    return found

    def _compare(self, found: dict[int, list[tuple[int, int]]], answered: frozenset[int]) -> None:
        problems = self.report.problems
        total = sum(amount for entries in found.values() for _, amount in entries)
        if total:
            problems.append(f"the sum of all accounts is {total}")
        for number, entries in found.items():
            amounts = sorted(amount for _, amount in entries)
            if len(entries) != 2 or amounts[0] != -amounts[1] or entries[0][0] == entries[1][0]:
                problems.append(f"transfer {number} is {entries}")
        if lost := sorted(answered - found.keys()):
            problems.append(f"{len(lost)} transfers were committed and are lost: {lost[:5]}")


class _Working:
    """A context in which a teller is at work."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    async def __aenter__(self) -> None:
        self._bank._at_work += 1

    async def __aexit__(self, *_: object) -> None:
        async with self._bank._idle:
            self._bank._at_work -= 1
            self._bank._idle.notify_all()


@click.command()
@click.option("--transfers", default=2000, show_default=True)
@click.option("--kills", default=200, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", default=4, show_default=True)
def main(transfers: int, kills: int, seed: int, workers: int) -> None:
    """Play it on a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="bank-") as place:
        broker = RunningBroker(Path(place) / "data", magnetarWorkers=str(workers)).start()
        try:
            report = asyncio.run(Bank(broker, seed, transfers, kills).go())
        finally:
            broker.close()
    print(report)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
