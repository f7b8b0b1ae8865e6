"""Official clients that publish and receive without a pause, while a test does something."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pulsar

from official import TIMEOUT_MS, connect

IN_FLIGHT = 100
WAIT_S = TIMEOUT_MS / 1000


class Publishing:
    """A client that publishes "name-0", "name-1" and so on until it is stopped."""

    def __init__(self, url: str, topic: str, name: str) -> None:
        self.name = name
        self.sent = self.stored = 0
        self.failures: list[pulsar.Result] = []
        self._client = connect(url)
        self._producer = self._client.create_producer(topic, producer_name=name)
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        while not self._stopping:
            with self._changed:
                assert self._changed.wait_for(self._may_send, WAIT_S), (self.sent, self.stored)
                number, self.sent = self.sent, self.sent + 1
            self._producer.send_async(f"{self.name}-{number}".encode(), self._answered)

    def _may_send(self) -> bool:
        return self.sent - self.stored - len(self.failures) < IN_FLIGHT

    def _answered(self, result: pulsar.Result, _: pulsar.MessageId) -> None:
        with self._changed:
            if result == pulsar.Result.Ok:
                self.stored += 1
            else:
                self.failures.append(result)
            self._changed.notify_all()

    def await_stored(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.stored >= count, WAIT_S), self.stored

    def stop(self) -> None:
        """Send no more; everything is answered on return."""
        self._stopping = True
        self._thread.join()
        self._producer.flush()
        self.await_stored(self.sent)

    def close(self) -> None:
        self._stopping = True
        self._client.close()


class Receiving:
    """A client that receives and acknowledges, and notes every first delivery by producer."""

    def __init__(self, url: str, topic: str, kind: pulsar.ConsumerType) -> None:
        self.numbers: dict[str, list[int]] = {}
        self._seen: set[bytes] = set()
        self._changed = threading.Condition()
        self._client = connect(url)
        self._client.subscribe(topic, f"s-{kind.name}", kind, message_listener=self._take)

    def _take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        payload = message.data()
        with self._changed:
            if payload not in self._seen:  # what is not acknowledged at a move comes again
                self._seen.add(payload)
                name, _, number = payload.decode().partition("-")
                self.numbers.setdefault(name, []).append(int(number))
                self._changed.notify_all()
        consumer.acknowledge(message)

    def await_number(self, name: str, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: (self.numbers.get(name) or [-1])[-1] >= number, WAIT_S
            ), {name: numbers[-1] for name, numbers in self.numbers.items()}

    def close(self) -> None:
        self._client.close()


class Traffic:
    """Two producers, "a" and "b", and a consumer of one topic."""

    def __init__(self, url: str, topic: str, kind: pulsar.ConsumerType) -> None:
        self.receiving = Receiving(url, topic, kind)
        self.producers = [Publishing(url, topic, name) for name in ("a", "b")]

    def await_more(self) -> None:
        """Return when what each producer sends from now on has been stored and delivered."""
        sent = [one.sent for one in self.producers]
        for one, count in zip(self.producers, sent, strict=True):
            one.await_stored(count + 1)
            self.receiving.await_number(one.name, count)

    def stop(self) -> None:
        """Send no more; everything is stored and delivered on return."""
        for one in self.producers:
            one.stop()
            self.receiving.await_number(one.name, one.sent - 1)

    def close(self) -> None:
        self.receiving.close()
        for one in self.producers:
            one.close()


@contextmanager
def undisturbed(
    url: str, topic: str, kind: pulsar.ConsumerType = pulsar.ConsumerType.Shared
) -> Iterator[Traffic]:
    """Traffic of which nothing may be refused, lost, doubled or reordered until the end."""
    traffic = Traffic(url, topic, kind)
    try:
        traffic.await_more()
        yield traffic
        traffic.stop()
    finally:
        traffic.close()
    assert [one.failures for one in traffic.producers] == [[], []]
    expected = {one.name: list(range(one.sent)) for one in traffic.producers}
    assert stored_numbers(url, topic) == expected
    assert traffic.receiving.numbers == expected


def stored_numbers(url: str, topic: str) -> dict[str, list[int]]:
    """What a topic has, from its first message to its last, by producer."""
    found: dict[str, list[int]] = {}
    client = connect(url)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        message = reader.read_next(timeout_millis=TIMEOUT_MS)
        name, _, number = message.data().decode().partition("-")
        found.setdefault(name, []).append(int(number))
    client.close()
    return found
