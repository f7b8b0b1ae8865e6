"""Official clients on one topic, which publish and acknowledge while the broker is killed.

Producers, batched and not, live through every kill; some messages are delayed.  Consumers
acknowledge cumulatively, individually with holes, and single messages of batches.  A consumer
of our own asks for an answer to every acknowledgement, because the official client of Python
does not.  All of them write what they did and saw into a `Record`, which alone judges it.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pulsar

from crash.lives import Setup
from crash.record import Key, Message, Record, Report, few
from crash.wire import ENDING
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.batch import decode_batch
from magnetar_proto.entries import parse_metadata
from magnetar_proto.ids import ack_set_to_mask, mask_to_ack_set
from official import TIMEOUT_MS, connect
from raw_client import Closed, Kind, RawClient, Received, id_of

AUDIT, CUMULATIVE, HOLES, ANSWERED = "audit", "cumulative", "holes", "answered"
POLL_MS = 100
BURST = 20
BURST_PAUSE_SECONDS = 0.02
LARGEST_PAYLOAD = 2000
RETRY_SECONDS = 0.05
CATCH_UP_SECONDS = 300
PERMITS = 1000
CUMULATIVE_EVERY = 10
DELAYED_EVERY = 2
LONGEST_DELAY_MS = 3000
TICK_MS = 1000
"""So much earlier than asked for a delayed message may come."""
HOLE_LIVES = 2
"""Lives after which a message that was left out is acknowledged at last."""


def parse(payload: bytes) -> Message:
    """Who wrote a message, and which it is."""
    producer, number, _, _ = payload.split(b":", 3)
    return Message(producer.decode(), int(number))


def ms_early(payload: bytes) -> int:
    """How much too early it is for a message with a due time; 0 if it is not."""
    due_ms = int(payload.split(b":", 3)[2])
    return max(0, due_ms - TICK_MS - time.time_ns() // 1_000_000)


def is_hole(message: Message) -> bool:
    """Every third message is not acknowledged when it first comes."""
    return message.number % 3 == 0


def is_delayed(message: Message) -> bool:
    """Whether it is not to be delivered at once; in batches the client would change the order."""
    return message.producer == "single" and message.number % DELAYED_EVERY == 0


class Clients:
    """`start` once, then `finish` once."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.topic = f"persistent://public/default/{setup.topic}"
        self.lives = setup.lives.of(self.topic)
        self.record = Record(
            self.lives, setup.tally, lambda text: setup.alarm(f"{self.topic}: {text}")
        )
        self.stop_producing, self.stop_consuming = threading.Event(), threading.Event()
        self.answered_client: RawClient | None = None
        self._failures: list[BaseException] = []

    def start(self) -> None:
        """Subscribe, then let producers and consumers work."""
        self._subscribe_first()
        self._producers = [
            self._start(produce, name, batched)
            for name, batched in (("single", False), ("batched", True), ("other", True))
        ]
        self._consumers = [
            self._start(consume_cumulatively),
            self._start(consume_individually),
            self._start(consume_individually),
            self._start(consume_with_answers),
        ]

    def finish(self) -> Report:
        """End in good order, then compare what was promised with what is there."""
        self.stop_producing.set()
        self._join(self._producers)
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
        self._join(self._consumers)
        report = self.record.report(list(stored.values()))
        unknown = dict.fromkeys((CUMULATIVE, HOLES, ANSWERED))
        counts = {AUDIT: len(stored), **unknown}
        report.backlogs = {(self.topic, name): count for name, count in counts.items()}
        report.problems = [f"{self.topic}: {text}" for text in report.problems + never_came]
        return report

    def check_time(self, name: str, payload: bytes) -> None:
        """A message came to a subscription that applies delays."""
        early = ms_early(payload)
        if early:
            self.setup.alarm(f"{self.topic}: {parse(payload)} came to {name} {early} ms early")

    def _start(self, work: Callable[..., None], *args: object) -> threading.Thread:
        def run() -> None:
            try:
                work(self, *args)
            except BaseException as error:  # raised by `_join`
                self._failures.append(error)
                self.setup.alarm(f"{work.__name__}{args} of {self.topic}: {error!r}")

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
        client = connect(self.setup.service_url)
        for name in (AUDIT, CUMULATIVE, HOLES, ANSWERED):
            client.subscribe(self.topic, name)
        client.close()

    def _read_all(self) -> dict[Key, Message]:
        """The topic as it is now, in order."""
        client = connect(self.setup.service_url)
        reader = client.create_reader(self.topic, pulsar.MessageId.earliest)
        found = {}
        while reader.has_message_available():
            message = reader.read_next(timeout_millis=TIMEOUT_MS)
            found[key_of(message)] = parse(message.data())
        client.close()
        return found


# Producers ------------------------------------------------------------------------------------


def produce(run: Clients, name: str, batched: bool) -> None:
    """Publish in bursts; the client brings what was not answered to the next broker itself."""
    client = connect(run.setup.service_url)
    producer = client.create_producer(
        run.topic,
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
            due_ms = 0
            if is_delayed(message):
                due_ms = time.time_ns() // 1_000_000 + sizes.randrange(LONGEST_DELAY_MS)
            filling = b"x" * sizes.randrange(LARGEST_PAYLOAD)
            producer.send_async(
                b"%s:%d:%d:%s" % (name.encode(), number, due_ms, filling),
                lambda result, _, message=message: run.record.answered(message, result),
                deliver_at=due_ms or None,
            )
    producer.flush()
    client.close()


# Official consumers -----------------------------------------------------------------------------


def key_of(message: pulsar.Message) -> Key:
    """Where a message is stored."""
    place = message.message_id()
    return place.ledger_id(), place.entry_id(), place.batch_index()


class Receiver:
    """Takes messages of an official consumer, with the life in which each came."""

    def __init__(self, run: Clients, consumer: pulsar.Consumer) -> None:
        self._run = run
        self._consumer = consumer
        self._seen = run.lives.kills, run.lives.moves_begun
        """The last life that was coming, or there, and the moves begun, when the consumer was seen
        without a connection, or was new: one that it has since is of that life and owner."""

    def receive(self) -> tuple[pulsar.Message, int] | None:
        """A message and the life in which it came; None to look around and try again.

        What may be left in the client of a lost connection is taken without more: it will be
        delivered again, and an ack of it would go nowhere.  But it came: a kill during a move may
        be of a process that does not serve the topic, and the client keeps what it has when it
        connects again.  What a new broker sends before it is known to be ready belongs to its life.
        """
        lives, consumer = self._run.lives, self._consumer
        kills, life, coming = lives.kills, lives.life, lives.coming
        now = kills, lives.moves_begun
        connected = consumer.is_connected()
        if (coming or life is not None) and not connected:
            self._seen = now
        try:
            message = consumer.receive(timeout_millis=POLL_MS)
        except pulsar.Timeout:
            return None
        # A client that has not noticed the kill or the move yet has what the former broker or owner
        # has sent, maybe for as long as the next one lives.
        connected &= consumer.is_connected() and self._seen == now
        if connected and life is None and coming:
            life = lives.await_life(CATCH_UP_SECONDS)
        if not connected or life is None or life != lives.life or lives.kills != kills:
            self._run.record.glimpsed(consumer.subscription_name(), key_of(message))
            return None
        return message, life


def with_next(received: list[Key], key: Key) -> list[Key]:
    """Return the messages that a connection brought in order, with one more.

    The client counts as connected a moment before it drops what the former connection has brought.
    What was taken then may be later than what the new connection begins with: a cumulative
    acknowledgement of the new ones does not cover it.
    """
    return [key] if received and key < received[-1] else [*received, key]


def consume_cumulatively(run: Clients) -> None:
    """Acknowledge all up to every tenth message."""
    client = connect(run.setup.service_url)
    consumer = client.subscribe(run.topic, CUMULATIVE, batch_index_ack_enabled=True)
    receiver = Receiver(run, consumer)
    received: list[Key] = []
    last_life = 0
    while not run.stop_consuming.is_set():
        found = receiver.receive()
        if found is None:
            continue
        message, life = found
        if life != last_life:
            received, last_life = [], life
        run.record.delivered(CUMULATIVE, key_of(message), life)
        received = with_next(received, key_of(message))
        if len(received) >= CUMULATIVE_EVERY:
            consumer.acknowledge_cumulative(message)
            at = time.monotonic()
            if consumer.is_connected():
                run.record.acked(CUMULATIVE, received, life, at)
            received = []
    client.close()


def consume_individually(run: Clients) -> None:
    """Acknowledge all but the holes, batch indexes included."""
    client = connect(run.setup.service_url)
    consumer = client.subscribe(
        run.topic, HOLES, pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
    )
    receiver = Receiver(run, consumer)
    while not run.stop_consuming.is_set():
        found = receiver.receive()
        if found is None:
            continue
        message, life = found
        key = key_of(message)
        run.check_time(HOLES, message.data())
        age = run.record.delivered(HOLES, key, life)
        if age >= HOLE_LIVES or not is_hole(parse(message.data())):
            consumer.acknowledge(message)
            at = time.monotonic()
            if consumer.is_connected():
                run.record.acked(HOLES, [key], life, at)
    client.close()


# A consumer of our own ----------------------------------------------------------------------------


def consume_with_answers(run: Clients) -> None:
    """Publish and consume over one raw connection a life; every ack waits for its answer."""
    while not run.stop_consuming.is_set():
        life = run.lives.life
        if life is None:
            run.stop_consuming.wait(RETRY_SECONDS)
            continue
        try:
            with RawClient.of_topic(run.setup.port, run.topic) as client:
                run.answered_client = client
                _consume_until_closed(run, client, life)
        except (Closed, ConnectionError):
            run.stop_consuming.wait(RETRY_SECONDS)


def _consume_until_closed(run: Clients, client: RawClient, life: int) -> None:
    answer = client.subscribe(run.topic, ANSWERED, pb.CommandSubscribe.Shared)
    if isinstance(answer, pb.CommandError) and answer.error == ENDING:
        raise Closed(answer.message)
    assert isinstance(answer, pb.CommandSuccess), answer
    client.flow(PERMITS)
    while not run.stop_consuming.is_set() and run.lives.kills == life:
        acks: list[tuple[int, int, tuple[int, ...]]] = []
        acked: list[Key] = []
        permits = 0
        try:
            messages = [unless_closed(client, Kind.MESSAGE)]
        except TimeoutError:
            return  # nothing to do; what is missing in the end will be reported then
        while client.has_message():
            messages.append(client.next_message())
        for received in messages:
            keys, mask, size = _choose(run, received, life)
            permits += size
            if keys:
                place = id_of(received)
                acks.append((place.ledger, place.entry, mask_to_ack_set(mask)))
                acked += keys
        if acks:
            at = time.monotonic()
            request_id = client.next_request()
            client.send_bytes(encode_ack(1, pb.CommandAck.Individual, acks, request_id))
            answer = unless_closed(client, Kind.ACK_RESPONSE).command
            if answer.HasField("error") and answer.error == ENDING:
                raise Closed(answer.message)
            assert not answer.HasField("error"), answer
            run.record.ack_answered(ANSWERED, acked, life, at)
        client.flow(permits)


def unless_closed(client: RawClient, kind: int) -> Received:
    """The next frame of a kind; `Closed` if the consumer is closed before, for its topic moves."""
    frame = client.await_frame(lambda frame: frame.kind in (kind, Kind.CLOSE_CONSUMER))
    if frame.kind != kind:
        raise Closed("its topic is unloaded")
    return frame


def _choose(run: Clients, received: Received, life: int) -> tuple[list[Key], int, int]:
    """Of one entry: what to acknowledge, the mask of what not, and how many messages came."""
    place = id_of(received)
    keys, mask = [], 0
    messages = messages_of(received)
    for index, metadata, payload in messages:
        run.check_time(ANSWERED, payload)
        key = (place.ledger, place.entry, index)
        age = run.record.delivered(ANSWERED, key, life)
        if age >= HOLE_LIVES or not is_hole(metadata):
            keys.append(key)
        else:
            mask |= 1 << max(index, 0)
    return keys, mask, len(messages)


def messages_of(received: Received) -> list[tuple[int, Message, bytes]]:
    """(batch index, message, payload) of what an entry holds that is not acknowledged yet."""
    metadata, at = parse_metadata(received.entry)
    if not metadata.HasField("num_messages_in_batch"):
        payload = received.entry[at:]
        return [(-1, parse(payload), payload)]
    ack_set = received.command.ack_set
    wanted = ack_set_to_mask(ack_set) if ack_set else -1
    batch = decode_batch(received.entry[at:], metadata.num_messages_in_batch)
    return [
        (index, parse(body), body) for index, (_, body) in enumerate(batch) if wanted >> index & 1
    ]
