"""Clients that publish and acknowledge while the broker is killed under them, and what they saw.

Run it alone for a long time: `python -m crash.torture --cycles 100` from the tests directory.
Every client writes what it did and saw into a `Record`; `verdict` is all that judges it.

Clients: official producers, batched and not, which live through every kill; official consumers
with cumulative, individual and batch-index acknowledgements; and a consumer of our own that asks
for an answer to every acknowledgement, because the official client of Python does not.
"""

import itertools
import os
import random
import signal
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click
import pulsar

from crash.record import Key, Message, Promise, Record, Report, few
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from magnetar_proto.entries import parse_metadata
from magnetar_proto.ids import ack_set_to_mask, mask_to_ack_set
from official import TIMEOUT_MS, connect
from raw_client import Closed, RawClient, Received, id_of
from running_broker import RunningBroker

TOPIC = "persistent://public/default/torture"
AUDIT, CUMULATIVE, HOLES, ANSWERED = "audit", "cumulative", "holes", "answered"
POLL_MS = 100
BURST = 10
BURST_PAUSE_SECONDS = 0.02
LARGEST_PAYLOAD = 2000
LONGEST_LIFE_SECONDS = 3.0
KILLED_AT_START = 0.25
"""How often the next broker is killed too, before or after it is ready."""
LONGEST_START_SECONDS = 1.0
RETRY_SECONDS = 0.05
CATCH_UP_SECONDS = 60
PERMITS = 1000
CUMULATIVE_EVERY = 10
HOLE_LIVES = 2
"""Lives after which a message that was left out is acknowledged at last."""


def parse(payload: bytes) -> Message:
    """Who wrote a message, and which it is."""
    producer, number, _ = payload.split(b":", 2)
    return Message(producer.decode(), int(number))


def is_hole(message: Message) -> bool:
    """Every third message is not acknowledged when it first comes."""
    return message.number % 3 == 0


class Torture:
    """One run; `go` does it all."""

    def __init__(self, broker: RunningBroker, seed: int) -> None:
        self.broker = broker
        self.record = Record()
        self.stop_producing, self.stop_consuming = threading.Event(), threading.Event()
        self.answered_client: RawClient | None = None
        self._random = random.Random(seed)
        self._failures: list[BaseException] = []

    def go(self, cycles: int) -> Report:
        """Kill the broker so many times under load, then compare."""
        self._subscribe_first()
        producers = [
            self._start(produce, name, batched)
            for name, batched in (("single", False), ("batched", True), ("other", True))
        ]
        consumers = [
            self._start(consume_cumulatively),
            self._start(consume_individually),
            self._start(consume_individually),
            self._start(consume_with_answers),
        ]
        for _ in range(cycles):
            self._live()
            self._kill()
            if self._random.random() < KILLED_AT_START:
                self.broker.start_and_kill(self._random.uniform(0, LONGEST_START_SECONDS))
                self.record.killed()
            self.record.starting()
            self.broker.start()
            self.record.started()
        self._live()
        self.stop_producing.set()
        self._join(producers)
        stored = self._read_all()
        never_came = [
            problem
            for name in (CUMULATIVE, HOLES, ANSWERED)
            for problem in few(
                f"never came to {name}",
                sorted(self.record.await_deliveries(name, set(stored), CATCH_UP_SECONDS)),
            )
        ]
        self.stop_consuming.set()
        if self.answered_client is not None:
            with suppress(OSError):  # it is between two connections
                self.answered_client.abort()
        self._join(consumers)
        report = self.record.report(list(stored.values()))
        report.problems += never_came
        if "Traceback" in self.broker.log:
            report.problems.append(f"the broker met a defect, see {self.broker.log_path}")
        return report

    def _kill(self) -> None:
        """At any moment, or just when a client heard a promise that is now to be kept."""
        promise = self._random.choice((None, *Promise))
        pid = self.broker.pid
        if promise is None or not self.record.kill_at_next(
            promise, lambda: os.kill(pid, signal.SIGKILL), LONGEST_LIFE_SECONDS
        ):
            self.record.killed()
        self.broker.kill()

    def _live(self) -> None:
        """Let the clients work for a while; no longer when one of them failed."""
        self.stop_producing.wait(self._random.uniform(0, LONGEST_LIFE_SECONDS))

    def _start(self, work: Callable[..., None], *args: object) -> threading.Thread:
        def run() -> None:
            try:
                work(self, *args)
            except BaseException as error:  # raised by `_join`
                self._failures.append(error)
                self.stop_producing.set()

        thread = threading.Thread(target=run, name=f"{work.__name__}{args}", daemon=True)
        thread.start()
        return thread

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(CATCH_UP_SECONDS)
            assert not thread.is_alive(), thread
        if self._failures:
            raise self._failures[0]

    def _subscribe_first(self) -> None:
        """Subscriptions exist before the first message; one of them keeps everything stored."""
        client = connect(self.broker.service_url)
        for name in (AUDIT, CUMULATIVE, HOLES, ANSWERED):
            client.subscribe(TOPIC, name)
        client.close()

    def _read_all(self) -> dict[Key, Message]:
        """The topic as it is now, in order."""
        client = connect(self.broker.service_url)
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        found = {}
        while reader.has_message_available():
            message = reader.read_next(timeout_millis=TIMEOUT_MS)
            found[key_of(message)] = parse(message.data())
        client.close()
        return found


# Producers ------------------------------------------------------------------------------------


def produce(run: Torture, name: str, batched: bool) -> None:
    """Publish in bursts; the client brings what was not answered to the next broker itself."""
    client = connect(run.broker.service_url)
    producer = client.create_producer(
        TOPIC,
        name,
        batching_enabled=batched,
        batching_max_publish_delay_ms=2,
        send_timeout_millis=0,
        block_if_queue_full=True,
    )
    sizes = random.Random(name)
    numbers = itertools.count()
    while not run.stop_producing.wait(BURST_PAUSE_SECONDS):
        for number in itertools.islice(numbers, BURST):
            message = Message(name, number)
            run.record.sent(message)
            producer.send_async(
                b"%s:%d:%s" % (name.encode(), number, b"x" * sizes.randrange(LARGEST_PAYLOAD)),
                lambda result, _, message=message: run.record.answered(message, result),
            )
    producer.flush()
    client.close()


# Official consumers -----------------------------------------------------------------------------


def key_of(message: pulsar.Message) -> Key:
    """Where a message is stored."""
    place = message.message_id()
    return place.ledger_id(), place.entry_id(), place.batch_index()


def _receive(run: Torture, consumer: pulsar.Consumer) -> tuple[pulsar.Message, int] | None:
    """A message and the life in which it came; None to look around and try again.

    What is left in the client of a lost connection is dropped here: it will be delivered
    again, and an ack of it would go nowhere.  What a new broker sends before it is known to be
    ready belongs to its life.
    """
    life, coming = run.record.life, run.record.coming
    try:
        message = consumer.receive(timeout_millis=POLL_MS)
    except pulsar.Timeout:
        return None
    if not consumer.is_connected():
        return None
    if life is None and coming:
        life = run.record.await_life(CATCH_UP_SECONDS)
    if life is None or life != run.record.life:
        return None
    return message, life


def consume_cumulatively(run: Torture) -> None:
    """Acknowledge all up to every tenth message."""
    client = connect(run.broker.service_url)
    consumer = client.subscribe(TOPIC, CUMULATIVE, batch_index_ack_enabled=True)
    received: list[Key] = []
    last_life = 0
    while not run.stop_consuming.is_set():
        found = _receive(run, consumer)
        if found is None:
            continue
        message, life = found
        if life != last_life:
            received, last_life = [], life
        run.record.delivered(CUMULATIVE, key_of(message), life)
        received.append(key_of(message))
        if len(received) >= CUMULATIVE_EVERY:
            consumer.acknowledge_cumulative(message)
            if consumer.is_connected():
                run.record.acked(CUMULATIVE, received, life, answered=False)
            received = []
    client.close()


def consume_individually(run: Torture) -> None:
    """Acknowledge all but the holes, batch indexes included."""
    client = connect(run.broker.service_url)
    consumer = client.subscribe(
        TOPIC, HOLES, pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
    )
    while not run.stop_consuming.is_set():
        found = _receive(run, consumer)
        if found is None:
            continue
        message, life = found
        key = key_of(message)
        age = run.record.delivered(HOLES, key, life)
        if age >= HOLE_LIVES or not is_hole(parse(message.data())):
            consumer.acknowledge(message)
            if consumer.is_connected():
                run.record.acked(HOLES, [key], life, answered=False)
    client.close()


# A consumer of our own ----------------------------------------------------------------------------


def consume_with_answers(run: Torture) -> None:
    """The same, one raw connection a life, and every ack waits for its answer."""
    while not run.stop_consuming.is_set():
        life = run.record.life
        if life is None:
            run.stop_consuming.wait(RETRY_SECONDS)
            continue
        try:
            with RawClient(run.broker.port) as client:
                run.answered_client = client
                _consume_until_closed(run, client, life)
        except (Closed, ConnectionError):
            run.stop_consuming.wait(RETRY_SECONDS)


def _consume_until_closed(run: Torture, client: RawClient, life: int) -> None:
    answer = client.subscribe(TOPIC, ANSWERED, pb.CommandSubscribe.Shared)
    assert isinstance(answer, pb.CommandSuccess), answer
    client.flow(PERMITS)
    while not run.stop_consuming.is_set():
        acks: list[tuple[int, int, tuple[int, ...]]] = []
        acked: list[Key] = []
        permits = 0
        try:
            messages = client.next_messages()
        except TimeoutError:
            return  # nothing to do; what is missing in the end will be told then
        for received in messages:
            keys, mask, size = _choose(run, received, life)
            permits += size
            if keys:
                place = id_of(received)
                acks.append((place.ledger, place.entry, mask_to_ack_set(mask)))
                acked += keys
        if acks:
            answer = client.ack(acks)
            assert not answer.HasField("error"), answer
            run.record.acked(ANSWERED, acked, life, answered=True)
        client.flow(permits)


def _choose(run: Torture, received: Received, life: int) -> tuple[list[Key], int, int]:
    """Of one entry: what to acknowledge, the mask of what not, and how many messages came."""
    place = id_of(received)
    keys, mask = [], 0
    messages = messages_of(received)
    for index, said in messages:
        key = (place.ledger, place.entry, index)
        age = run.record.delivered(ANSWERED, key, life)
        if age >= HOLE_LIVES or not is_hole(said):
            keys.append(key)
        else:
            mask |= 1 << max(index, 0)
    return keys, mask, len(messages)


def messages_of(received: Received) -> list[tuple[int, Message]]:
    """(batch index, message) of what an entry holds that is not acknowledged yet."""
    metadata, at = parse_metadata(received.entry)
    if not metadata.HasField("num_messages_in_batch"):
        return [(-1, parse(received.entry[at:]))]
    ack_set = received.command.ack_set
    wanted = ack_set_to_mask(ack_set) if ack_set else -1
    batch = decode_batch(received.entry[at:], metadata.num_messages_in_batch)
    return [(index, parse(body)) for index, (_, body) in enumerate(batch) if wanted >> index & 1]


@click.command()
@click.option("--cycles", default=100, show_default=True, help="How many times to kill it.")
@click.option("--seed", default=0, show_default=True, help="Of the moments of the kills.")
def main(cycles: int, seed: int) -> None:
    """Kill a broker under load again and again, and say what came of it."""
    with tempfile.TemporaryDirectory() as directory:
        broker = RunningBroker(Path(directory) / "data").start()
        try:
            report = Torture(broker, seed).go(cycles)
        finally:
            broker.close()
    print(report)
    raise SystemExit(bool(report.problems))


if __name__ == "__main__":
    main()
