"""Kill the broker and its store of objects, and compare what was confirmed with what is kept.

`make torture-tiered CYCLES=n [SEED=s] [BROKER_WORKERS=n]`.  Official clients publish to some topics
and consume them, and every cycle creates, fills and deletes one more, while closed ledgers are
offloaded to versitygw and deleted from the data directory.  In each cycle the broker or the server
is killed, or the server is suspended, and a topic is read from its beginning then.  At the end
everything is read, and records, segments and objects are compared.  Then the metadata is deleted,
and everything is read once more after a repair.
"""

import random
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import click
import pulsar

import object_servers
from admin_http import Admin
from crash.record import few
from magnetar_broker.base.metadata_keys import TOPICS
from magnetar_broker.server.data_directory.lost_objects import Search
from magnetar_broker.server.data_directory.rebuilding import rebuild
from magnetar_broker.server.object_stores.credentials import Credentials
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.verify import check
from magnetar_storage.interfaces import SegmentCopy
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.tiered.own_objects import SUFFIX
from object_servers import Versitygw
from official import connect
from running_broker import RunningBroker
from tiered_broker import at_once, await_moved, ledgers_of, path_of, publish, read_all

TOPICS_UNDER_LOAD = 3
LONGEST_LIFE_SECONDS = 2.0
LONGEST_OUTAGE_SECONDS = 2.0
RECEIVE_MS = 1000
END_SECONDS = 300
PREFIX = "torture"
PAUSE_SECONDS = 0.005
"""Between two messages of a publisher."""
FAULTS = ("broker", "store", "both", "suspend", "suspend and broker", "restart")


@dataclass
class Summary:
    """The outcome of a run."""

    cycles: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    confirmed: int = 0
    compared: int = 0
    moved: int = 0
    """The ledgers that were only in the store at the end."""
    unlisted: int = 0
    """Objects that no record lists: for the collector."""
    repaired: int = 0
    """The ledgers that were listed again by their objects, after the loss of the metadata."""
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        return "\n".join([
            f"{self.cycles} cycles: {faults}",
            f"{self.confirmed:,} messages confirmed, {self.compared:,} compared, "
            f"{self.moved:,} ledgers offloaded, {self.unlisted:,} objects that nothing lists",
            f"{self.repaired:,} ledgers found by their objects after the loss of the metadata",
            *self.problems,
        ])  # fmt: skip


class Load:
    """A publisher and a consumer of one topic, each in a thread with a client of its own."""

    def __init__(self, url: str, topic: str) -> None:
        self.topic = topic
        self.problems: list[str] = []
        self.confirmed: list[int] = []
        """The numbers of stored messages, in the order of their receipts."""
        self._received: set[int] = set()
        self._sent = 0
        self._ending, self._complete = Event(), Event()
        self._clients = [connect(url), connect(url)]
        consumer = self._clients[1].subscribe(topic, "sub", pulsar.ConsumerType.Shared)
        producer = self._clients[0].create_producer(
            topic, send_timeout_millis=0, max_pending_messages=100, block_if_queue_full=True
        )
        self._threads = [
            Thread(target=self._guarded, args=(self._publish, producer), daemon=True),
            Thread(target=self._guarded, args=(self._consume, consumer), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _guarded(self, work: Callable[[object], None], what: object) -> None:
        try:
            work(what)
        except Exception as error:
            self.problems.append(f"{self.topic}: a client failed: {error!r}")

    def _publish(self, producer: pulsar.Producer) -> None:
        while not self._ending.is_set():
            number, self._sent = self._sent, self._sent + 1
            producer.send_async(f"{number}".encode(), self._receipt_of(number))
            time.sleep(PAUSE_SECONDS)
        producer.flush()

    def _receipt_of(self, number: int) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        def received(result: pulsar.Result, _: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                self.confirmed.append(number)

        return received

    def _consume(self, consumer: pulsar.Consumer) -> None:
        while not self._complete.is_set():
            with suppress(pulsar.Timeout):
                message = consumer.receive(timeout_millis=RECEIVE_MS)
                self._received.add(int(message.data()))
                consumer.acknowledge(message)

    def finish(self) -> None:
        """Stop publishing; wait until all that was confirmed was consumed."""
        self._ending.set()
        self._threads[0].join(END_SECONDS)
        give_up_at = time.monotonic() + END_SECONDS
        while not self._received.issuperset(self.confirmed) and time.monotonic() < give_up_at:
            time.sleep(PAUSE_SECONDS)
        self._complete.set()
        self._threads[1].join(END_SECONDS)
        missed = sorted(set(self.confirmed) - self._received)
        self.problems += few(f"{self.topic}: confirmed, and never delivered", missed)
        for client in self._clients:
            client.close()

    def compare(self, confirmed: list[int], stored: list[int]) -> None:
        """Compare what was confirmed before the topic was read with what was read."""
        lost = sorted(set(confirmed) - set(stored))
        self.problems += few(f"{self.topic}: confirmed, and lost", lost)
        first = list(dict.fromkeys(stored))  # a client sends again what was not confirmed
        if first != sorted(first):
            self.problems.append(f"{self.topic}: messages are out of order")
        self.problems += few(f"{self.topic}: invented", [one for one in first if one >= self._sent])


class Torture:
    """One run over one broker and one server of objects; `go` does it all."""

    def __init__(
        self,
        broker: RunningBroker,
        store: Versitygw,
        seed: int,
        cycles: int,
        output: Callable[[str], None] = print,
    ) -> None:
        self.broker = broker
        self.summary = Summary()
        self._store = store
        self._cycles = cycles
        self._print = output
        self._random = random.Random(seed)

    def go(self) -> Summary:
        """Do the cycles, and compare everything in the end."""
        summary = self.summary
        self._loads = [
            Load(self.broker.service_url, f"persistent://public/default/load-{number}")
            for number in range(TOPICS_UNDER_LOAD)
        ]
        while summary.cycles < self._cycles and not self._problems():
            self._cycle()
        if not self._problems():
            self._end()
        summary.confirmed = sum(len(load.confirmed) for load in self._loads)
        summary.problems += self._problems()
        if "Traceback" in self.broker.log:
            summary.problems.append(f"the broker met a defect, see {self.broker.log_path}")
        return summary

    def _problems(self) -> list[str]:
        return [problem for load in self._loads for problem in load.problems]

    # A cycle --------------------------------------------------------------------------------

    def _cycle(self) -> None:
        self.summary.cycles += 1
        shortlived = Thread(target=self._create_and_delete, args=(self.summary.cycles,))
        shortlived.start()
        time.sleep(self._random.uniform(0, LONGEST_LIFE_SECONDS))
        fault = self._random.choice(FAULTS)
        began = time.monotonic()
        self._strike(fault)
        self.summary.faults[fault] += 1
        shortlived.join()
        load = self._random.choice(self._loads)
        confirmed = list(load.confirmed)
        stored = self._stored(load)
        load.compare(confirmed, stored)
        self.summary.compared += len(stored)
        self._print(
            f"{self.summary.cycles:>4}  {fault}, {len(stored):,} messages of {load.topic} compared"
            f" after {time.monotonic() - began:.1f} s"
        )

    def _strike(self, fault: str) -> None:
        outage = self._random.uniform(0, LONGEST_OUTAGE_SECONDS)
        if fault in ("store", "both"):
            self._store.kill()
        if "suspend" in fault:
            self._store.suspend()
        if fault == "restart":
            self.broker.stop()
        elif fault in ("broker", "both", "suspend and broker"):
            self.broker.kill()
        starts_first = self._random.random() < 0.5  # without its store
        if starts_first and fault in ("both", "suspend and broker"):
            self.broker.start()
        time.sleep(outage)
        self._store.go_on()
        self._store.start()
        if fault in ("restart", "broker", "both", "suspend and broker") and not (
            starts_first and fault in ("both", "suspend and broker")
        ):
            self.broker.start()

    def _create_and_delete(self, number: int) -> None:
        """Create a topic, fill it and delete it, as far as that succeeds while all is killed."""
        topic = _shortlived(number)
        with suppress(Exception):  # the end deletes what is left
            client = connect(self.broker.service_url, operation_timeout_seconds=5)
            with suppress(Exception):
                publish(client, topic, [str(one) for one in range(120)])
            client.close()
            Admin(self.broker).delete(f"{path_of(topic)}?force=true")

    def _stored(self, load: Load) -> list[int]:
        client = connect(self.broker.service_url)
        try:
            return [int(text) for text in read_all(client, load.topic)]
        finally:
            client.close()

    # The end --------------------------------------------------------------------------------

    def _end(self) -> None:
        admin = Admin(self.broker)
        for number in range(1, self._cycles + 1):
            path = path_of(_shortlived(number))
            while admin.delete(f"{path}?force=true").status not in (204, 404):
                time.sleep(PAUSE_SECONDS)
        for load in self._loads:
            load.finish()
        for load in self._loads:
            if len(ledgers_of(self.broker, load.topic)) > 1:
                self.summary.moved += len(await_moved(self.broker, load.topic))
            stored = self._stored(load)
            load.compare(load.confirmed, stored)
            self.summary.compared += len(stored)
        self.broker.stop()
        verified = check(str(self.broker.data_dir), with_progress=False)
        self.summary.problems += few("damaged files", verified.problems)
        self.summary.problems += self._compare_objects()
        self._repair()

    def _repair(self) -> None:
        """Lose the metadata, rebuild it from segments and objects, and read everything again."""
        places = {copy.place for copy in copies_in(self.broker.data_dir)}
        for path in self.broker.data_dir.glob("metadata.d*"):
            path.unlink()
        credentials = Credentials(object_servers.KEY, object_servers.SECRET, "")
        search = Search(lambda place: open_objects(place, credentials), tuple(places))
        result = rebuild(str(self.broker.data_dir), True, lambda _: None, search)
        self.summary.repaired = result.found.objects
        if self.summary.repaired < self.summary.moved:
            self.summary.problems.append("a repair does not find all ledgers that were offloaded")
        self.broker.start()
        for load in self._loads:
            stored = self._stored(load)
            load.compare(load.confirmed, stored)
            self.summary.compared += len(stored)
        self.broker.stop()

    def _compare_objects(self) -> Iterator[str]:
        """Yield listed copies that are missing or different, and objects that nobody may delete."""
        credentials = Credentials(object_servers.KEY, object_servers.SECRET, "")
        place = object_servers.place_at(self._store.endpoint, PREFIX)
        present = {
            one.name: one.size
            for one in open_objects(place, credentials).list("")
            if one.name.endswith(SUFFIX)
        }
        listed = list(copies_in(self.broker.data_dir))
        for copy in listed:
            if copy.completed_ms and present.get(copy.name) != copy.size:
                yield f"{copy.name} has {present.get(copy.name)} bytes, not {copy.size}"
        unlisted = present.keys() - {copy.name for copy in listed}
        self.summary.unlisted = len(unlisted)
        owners = {name.partition("/")[0] for name in present}
        if len(owners) > 1:
            yield f"objects have several prefixes, of which the collector knows one: {owners}"
        deleted = [copy.name for copy in listed if not copy.completed_ms and copy.is_only]
        yield from few("without a complete copy, and deleted here", deleted)


def _shortlived(number: int) -> str:
    return f"persistent://public/default/short-{number}"


def copies_in(data_dir: Path) -> Iterator[SegmentCopy]:
    """Yield the copies that the records of topics list, those to be deleted included."""
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        rows = database.execute(
            "SELECT key, value FROM entries WHERE key >= ? AND key < ?", (TOPICS, TOPICS + "~")
        ).fetchall()
    for key, value in rows:
        record = LogRecord.decode(key, value)
        yield from (one.copy for one in record.segments if one.copy is not None)
        # Their objects may be gone already.
        yield from (SegmentCopy(one.place, one.name) for one in record.copy_trash)


@click.command()
@click.option("--cycles", default=100, show_default=True, help="How many times to kill.")
@click.option("--seed", type=int, help="Of the moments of the kills; a new one each time.")
@click.option("--workers", type=click.IntRange(1, 4), default=1, help="Of the broker.")
def main(cycles: int, seed: int | None, workers: int) -> None:
    """Kill a broker and its store of objects again and again, and print the outcome."""
    seed = random.randrange(1 << 32) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="magnetar-tiered-torture-"))
    click.echo(f"seed {seed}, data in {directory}")
    store = Versitygw(directory / "objects")
    store.start()
    settings = at_once(store.endpoint, PREFIX) | {"magnetarWorkers": str(workers)}
    broker = RunningBroker(directory / "data", **settings).start()
    good = False
    try:
        summary = Torture(broker, store, seed, cycles, click.echo).go()
        good = not summary.problems
        click.echo(f"\n{summary}")
    finally:
        broker.kill()
        store.kill()
        if good:
            shutil.rmtree(directory)
        else:
            click.echo(f"The data directory, the objects and the broker's log are in {directory}; "
                       f"repeat it with make torture-tiered CYCLES={cycles} SEED={seed} "
                       f"BROKER_WORKERS={workers}")  # fmt: skip
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
