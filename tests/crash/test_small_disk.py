"""The daemon on a small disk that is full: continued operation, refusals, and restarts."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pulsar
import pytest

from crash.owners import Owners
from crash.test_trouble import await_health, health
from fakes.waiting import HANGS_SECONDS
from magnetar_storage.space.reserve import METADATA_FILE
from official import TIMEOUT_MS, connect
from running_broker import RunningBroker

TOPIC = "persistent://public/default/full"
MEGABYTES = 32
PAYLOAD = 300_000
BLOCK = 4096
FILLS = 3
GIVEN_BACK = 1 << 20
OF_THE_PROGRAM = 16 << 20
METADATA_DB = "data/metadata.db: free"
REFUSED = pulsar.ProducerBlockedQuotaExceededException
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def small(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mount a file system of some MB, in memory."""
    place = tmp_path / "small"
    place.mkdir()
    options = f"size={getattr(request, 'param', MEGABYTES)}m".encode()
    if LIBC.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, options):
        why = os.strerror(ctypes.get_errno())
        pytest.skip(f"a small file system cannot be mounted here (only root can): {why}")
    yield place
    assert LIBC.umount2(os.fsencode(place), 2) == 0  # also while a process has it open


@pytest.fixture(params=[1, 3], ids=["alone", "three_workers"])
def full_broker(small: Path, request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    broker = RunningBroker(
        small / "data", magnetarWorkers=str(request.param), retentionCheckIntervalInSeconds="1"
    )
    broker.log_path = small.parent / "broker.log"
    broker.start()
    yield broker
    broker.close()


def fill(place: Path) -> None:
    """Let another program take all free space."""
    with (place / "program").open("ab", buffering=0) as file:
        for size in (1 << 20, BLOCK, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def free_bytes(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def try_publish(producer: pulsar.Producer, numbers: Iterator[int], confirmed: list[int]) -> bool:
    """Publish the next number, and add it to `confirmed`; return False if it is refused."""
    number = next(numbers)
    try:
        producer.send(b"%d " % number + os.urandom(PAYLOAD))
    except REFUSED:
        return False
    confirmed.append(number)
    return True


def publish_until_refused(producer: pulsar.Producer, numbers: Iterator[int]) -> list[int]:
    """Publish until one is refused; return the numbers of the confirmed messages."""
    confirmed: list[int] = []
    while try_publish(producer, numbers, confirmed):
        pass
    return confirmed


def publish_again(producer: pulsar.Producer, numbers: Iterator[int]) -> int:
    """Publish as soon as the broker lets this producer go on, which connects again by itself;
    return the number of the message."""
    give_up_at = time.monotonic() + HANGS_SECONDS
    confirmed: list[int] = []
    while not try_publish(producer, numbers, confirmed):
        assert time.monotonic() < give_up_at, f"{producer.topic()} is still refused"
    return confirmed[0]


def topics_of_all_workers(broker: RunningBroker) -> list[str]:
    """Return a topic for each worker of the broker, by which it is served."""
    found: dict[int, str] = {}
    with Owners(broker.port) as owners:
        names = (f"{TOPIC}-{number}" for number in count())
        while len(found) < int(broker.settings["magnetarWorkers"]):
            name = next(names)
            found.setdefault(owners.number_of(name), name)
    return list(found.values())


def consume(client: pulsar.Client, messages: int, topic: str = TOPIC) -> list[int]:
    """Receive and acknowledge `messages` messages; return their numbers."""
    with closing(client.subscribe(topic, "sub")) as consumer:
        numbers = []
        for _ in range(messages):
            message = consumer.receive(timeout_millis=TIMEOUT_MS)
            numbers.append(int(message.data().split(b" ")[0]))
            consumer.acknowledge(message)
        return numbers


def consume_confirmed(client: pulsar.Client, confirmed: list[int], topic: str) -> list[int]:
    """Receive and acknowledge up to the last of these messages; return those that came of them.

    Others may come: what is being stored when the broker closes a producer for lack of room is
    stored, though the client counts it as refused.
    """
    came: list[int] = []
    with closing(client.subscribe(topic, "sub")) as consumer:
        while confirmed[-1] not in came:
            message = consumer.receive(timeout_millis=TIMEOUT_MS)
            came.append(int(message.data().split(b" ")[0]))
            consumer.acknowledge(message)
    return [number for number in came if number in confirmed]


def admin(broker: RunningBroker, *words: str) -> str:
    command = str(Path(sys.executable).with_name("magnetar"))
    done = subprocess.run(
        [command, "admin", "--admin-url", broker.http_url, *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def start_without_room(broker: RunningBroker, place: Path) -> None:
    """Start where another program may have taken even the reserve, after its use.

    There may be no block for a checkpoint then, until the program frees some.
    """
    is_set_aside = (place / "data" / METADATA_FILE).exists()
    if not broker.try_start():
        assert "free some space" in broker.log_of_start
        assert not (is_set_aside and METADATA_DB in broker.log_of_start)
        broker.wait()
        program = place / "program"
        os.truncate(program, program.stat().st_size - GIVEN_BACK)
        broker.start()


def verify(place: Path) -> None:
    """Verify the data while not even temporary files have room."""
    command = str(Path(sys.executable).with_name("magnetar"))
    done = subprocess.run(
        [command, "verify", str(place / "data")], env={**os.environ, "TMPDIR": str(place)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_disk_that_fills_again_and_again_loses_nothing(
    full_broker: RunningBroker, small: Path
) -> None:
    """Each time, publishing resumes by itself when the messages have been consumed."""
    numbers, expected = count(), list[int]()
    for fills in range(FILLS):
        client = connect(full_broker.service_url)
        client.subscribe(TOPIC, "sub").close()
        producer = client.create_producer(TOPIC)
        confirmed = publish_until_refused(producer, numbers)
        assert confirmed, "there was room"
        expected += confirmed
        fill(small)
        # Without a free byte, half is consumed; then the broker is killed or stopped.
        half = len(expected) // 2
        received = consume(client, half)
        client.close()
        if fills % 2:
            assert full_broker.stop() == 0
        else:
            full_broker.kill()
        fill(small)
        verify(small)
        start_without_room(full_broker, small)
        client = connect(full_broker.service_url)
        # Messages acknowledged in the last moments may be redelivered.
        while len({*received}) < len(expected):
            received += consume(client, 1)
        assert sorted({*received}) == expected, "what had a receipt is there, and nothing else"
        assert admin(full_broker, "topics", "clear-backlog", "-s", "sub", TOPIC) == ""
        (small / "program").unlink()
        await_health(full_broker)
        client.close()
        expected = []
    assert "Traceback" not in full_broker.log
    assert full_broker.stop() == 0


@pytest.mark.parametrize("small", [2 * MEGABYTES], indirect=True)
def test_producers_at_every_worker_go_on_by_themselves(
    full_broker: RunningBroker, small: Path
) -> None:
    """Room is made while the broker runs, by consumers and by the other program."""
    topics = topics_of_all_workers(full_broker)
    client = connect(full_broker.service_url)
    for topic in topics:
        client.subscribe(topic, "sub").close()
    producers = {topic: client.create_producer(topic) for topic in topics}
    numbers = count()
    for _ in range(FILLS):
        # What it gives back later is more than the limit and all reserves.
        (small / "program").write_bytes(bytes(OF_THE_PROGRAM))
        stored: dict[str, list[int]] = {topic: [] for topic in topics}
        while all(try_publish(producers[topic], numbers, stored[topic]) for topic in topics):
            pass
        fill(small)
        for topic, producer in producers.items():
            stored[topic] += publish_until_refused(producer, numbers)
        for topic, expected in stored.items():
            assert consume_confirmed(client, expected, topic) == expected
        (small / "program").unlink()
        again = {topic: publish_again(producer, numbers) for topic, producer in producers.items()}
        for topic, number in again.items():
            assert consume_confirmed(client, [number], topic) == [number]
    client.close()
    assert "Traceback" not in full_broker.log


def test_what_is_refused_says_why_and_what_frees_room_goes_on(
    full_broker: RunningBroker, small: Path
) -> None:
    client = connect(full_broker.service_url)
    client.subscribe(TOPIC, "sub").close()
    producer = client.create_producer(TOPIC)
    publish_until_refused(producer, count())
    fill(small)
    status, reason = health(full_broker)
    assert status == 503
    # The process that creates topics may check up to a second later than the first one.
    answers = (admin(full_broker, "topics", "create", f"{TOPIC}-{n}") for n in range(100))
    for text in (reason, next(filter(None, answers))):
        assert f"the disk of {small / 'data'} has" in text
        assert "magnetarDiskFreeLimit" in text
    with pytest.raises(REFUSED):
        client.create_producer(TOPIC)
    assert "magnetar_disk_low{" in full_broker.metrics
    low = [line for line in full_broker.metrics.splitlines() if "magnetar_disk_low{" in line]
    assert low and all(line.endswith((" 1.0", " 1")) for line in low)
    client.close()
    full_broker.kill()
    fill(small)
    start_without_room(full_broker, small)
    client = connect(full_broker.service_url)
    assert admin(full_broker, "topics", "delete", "-f", TOPIC) == ""
    (small / "program").unlink()
    await_health(full_broker)
    assert free_bytes(small) > MEGABYTES << 19
    producer = client.create_producer(TOPIC)
    producer.send(b"again")
    client.close()
