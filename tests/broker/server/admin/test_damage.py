"""A flipped bit in a segment file of a real broker: the reports of it, and the remedies."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from click.testing import CliRunner, Result

import magnetar
from admin_command import answered, done
from admin_http import Admin
from fakes.waiting import await_true
from magnetar.cli import main
from official import QUIET_MS, connect, take, texts
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]
TOPIC = "persistent://public/default/damaged"
PATH = TOPIC.replace("://", "/")
TIMEOUT_S = 120.0


def rot(directory: Path, *payloads: bytes) -> None:
    """Flip a bit of each of these payloads in its segment; the broker must be stopped."""
    for payload in payloads:
        found = 0
        for path in directory.rglob("segments/*.seg"):
            content = bytearray(path.read_bytes())
            at = content.find(payload)
            if at >= 0:
                content[at] ^= 1
                path.write_bytes(content)
                found += 1
        assert found == 1, payload


def publish(running: RunningBroker, *topics: str) -> None:
    """Publish four messages to each topic, every one with a receipt before the next."""

    async def send() -> None:
        async with magnetar.connect(running.service_url) as client:
            for topic in topics:
                producer = await client.producer(topic)
                for number in range(1, 5):
                    await producer.send(b"%s message %d" % (topic[-9:].encode(), number))

    asyncio.run(send())


def body(topic: str, number: int) -> str:
    return f"{topic[-9:]} message {number}"


def rotten(make_broker: Make, topics: Iterable[str] = (TOPIC,), **settings: str) -> RunningBroker:
    """Start a broker with four messages in each topic, of which the second is damaged."""
    running = make_broker(**settings)
    publish(running, *topics)
    assert running.stop() == 0
    rot(running.data_dir, *(body(topic, 2).encode() for topic in topics))
    return running.start()


def command(running: RunningBroker, *words: str) -> Result:
    return CliRunner(env={"MAGNETAR_URL": running.service_url}).invoke(main, list(words))


def detailed(running: RunningBroker) -> dict[str, Any]:
    answer = Admin(running).get("brokers/health?detailed=true")
    assert answer.status == 200
    return dict(answer.json)


def explained(running: RunningBroker, subscription: str, blocker: str) -> dict[str, Any]:
    """Return the explanation of delivery, once it names this blocker."""
    while True:
        found = answered(running, "subscriptions", "explain-delivery", TOPIC, subscription)
        if found["blocker"] == blocker:
            return dict(found)


def read_all(running: RunningBroker) -> list[str]:
    """Return all messages up to the end of the topic; raise an error on damage."""

    async def read() -> list[str]:
        found: list[str] = []
        async with magnetar.connect(running.service_url) as client:
            reader = await client.reader(TOPIC, magnetar.EARLIEST)
            last = (await reader.last_message_ids())[0]
            while True:
                message = await reader.read(TIMEOUT_S)
                found.append(message.data.decode())
                if message.id[:2] == last[:2]:
                    return found

    return asyncio.run(read())


def quarantined(running: RunningBroker) -> list[Path]:
    return sorted(running.data_dir.rglob("quarantine/*.damaged"))


def metric(running: RunningBroker, name: str) -> float:
    """Return the sum of a metric over all processes."""
    return sum(map(float, re.findall(rf"^{name}{{.*}} (\S+)$", running.metrics, re.MULTILINE)))


# Reports of damage ---------------------------------------------------------------------


def test_our_client_is_told_where_it_stops_and_goes_on_afterwards(make_broker: Make) -> None:
    running = rotten(make_broker)

    async def consume() -> None:
        async with magnetar.connect(running.service_url) as client:
            reader = await client.reader(TOPIC, magnetar.EARLIEST)
            consumer = await client.subscribe(TOPIC, "ours", initial_position="earliest")
            first = await reader.read(TIMEOUT_S)
            assert first.data.decode() == body(TOPIC, 1)
            assert (await consumer.receive(TIMEOUT_S)).id == first.id
            for receive in (reader.read, consumer.receive):
                with pytest.raises(magnetar.Damaged) as raised:
                    await receive(TIMEOUT_S)
                error = raised.value
                assert (error.topic, error.entries) == (TOPIC, 1)
                assert error.message_id[:2] == (first.id.ledger, first.id.entry + 1)
                assert f"skip-damaged {TOPIC}" in str(error)
            answer = await asyncio.to_thread(Admin(running).post, f"{PATH}/skipDamaged")
            assert answer.status == 200
            for receive in (reader.read, consumer.receive):
                for number in (3, 4):
                    assert (await receive(TIMEOUT_S)).data.decode() == body(TOPIC, number)

    asyncio.run(consume())


def test_the_commands_end_with_the_reason_and_the_way_on(make_broker: Make) -> None:
    running = rotten(make_broker)
    for words in (("read", TOPIC), ("consume", TOPIC, "-s", "s"), ("read", TOPIC, "-n", "4")):
        result = command(running, *words)
        assert result.exit_code == 1, result.output
        assert body(TOPIC, 1) in result.output and body(TOPIC, 3) not in result.output
        assert f"magnetar admin topics skip-damaged {TOPIC}" in result.output
    done(running, "topics", "skip-damaged", TOPIC)
    for words in (("read", TOPIC), ("consume", TOPIC, "-s", "s")):
        result = command(running, *words)
        assert result.exit_code == 0, result.output
        assert body(TOPIC, 3) in result.output and body(TOPIC, 4) in result.output


def test_official_clients_wait_undisturbed_and_go_on_afterwards(make_broker: Make) -> None:
    running = rotten(make_broker)
    client = connect(running.service_url)
    kinds = (pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover)
    earliest = pulsar.InitialPosition.Earliest
    consumers = [
        client.subscribe(TOPIC, str(kind), kind, initial_position=earliest) for kind in kinds
    ]
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    for consumer, kind in zip(consumers, kinds, strict=True):
        assert texts(take(consumer, 1)) == [body(TOPIC, 1)]
        found = explained(running, str(kind), "damage")
        assert found["consumerCount"] == 1 and "skip-damaged" in found["whatToDo"]
        with pytest.raises(pulsar.Timeout):
            consumer.receive(timeout_millis=QUIET_MS)
        assert consumer.is_connected()
    assert reader.read_next(int(TIMEOUT_S * 1000)).data().decode() == body(TOPIC, 1)
    done(running, "topics", "skip-damaged", TOPIC)
    for consumer in consumers:
        assert texts(take(consumer, 2)) == [body(TOPIC, 3), body(TOPIC, 4)]
    rest = [reader.read_next(int(TIMEOUT_S * 1000)).data().decode() for _ in range(2)]
    assert rest == [body(TOPIC, 3), body(TOPIC, 4)]
    client.close()


def test_it_is_explained_while_no_consumer_is_connected(make_broker: Make) -> None:
    running = make_broker()
    client = connect(running.service_url)
    client.subscribe(TOPIC, "sub", initial_position=pulsar.InitialPosition.Earliest).close()
    client.close()
    publish(running, TOPIC)
    done(running, "subscriptions", "skip", TOPIC, "sub", "-n", "1")
    assert running.stop() == 0
    rot(running.data_dir, body(TOPIC, 2).encode())
    running.start()
    found = explained(running, "sub", "damage")
    assert (found["consumerCount"], len(found["damaged"])) == (0, 1)
    shown = done(running, "subscriptions", "explain-delivery", TOPIC, "sub")
    assert "the entries are not what was written" in shown


def test_the_broker_is_degraded_and_stays_alive(make_broker: Make) -> None:
    running = rotten(make_broker)
    assert detailed(running) == {"status": "ok", "damaged": []}
    for _ in range(3):
        assert command(running, "read", TOPIC).exit_code == 1
    found = detailed(running)
    assert found["status"] == "degraded"
    (one,) = found["damaged"]
    assert (one["topic"], one["firstEntryId"], one["lastEntryId"]) == (TOPIC, 1, 1)
    assert one["file"].startswith("segments/") and one["byte"] > 0
    shown = done(running, "brokers", "healthcheck", "--detailed")
    assert "degraded" in shown and TOPIC in shown
    assert done(running, "brokers", "healthcheck") == "ok\n"
    probe = Admin(running).get("brokers/health")
    assert (probe.status, probe.body) == (200, b"ok")
    assert metric(running, "magnetar_damaged_entries") == 1
    assert running.log.count("damaged entries: ") == 1, "once, whoever reads"
    assert running.log.count("not what was written") == 1
    done(running, "topics", "skip-damaged", TOPIC)
    assert detailed(running)["status"] == "ok"
    assert metric(running, "magnetar_damaged_entries") == 0
    assert metric(running, "magnetar_damaged_entries_set_aside_total") == 1


# Remedies -----------------------------------------------------------------------------


def test_what_would_be_set_aside_is_named_first_and_then_kept(make_broker: Make) -> None:
    running = rotten(make_broker)
    assert "--scan" in done(running, "topics", "skip-damaged", TOPIC, "--dry-run")
    (named,) = answered(running, "topics", "skip-damaged", TOPIC, "--dry-run", "--scan")["damaged"]
    assert (named["topic"], named["firstEntryId"], named["entries"]) == (TOPIC, 1, 1)
    assert quarantined(running) == []
    assert command(running, "read", TOPIC).exit_code == 1, "nothing was changed"
    (skipped,) = answered(running, "topics", "skip-damaged", TOPIC)["setAside"]
    assert skipped["ledgerId"] == named["ledgerId"]
    listed = answered(running, "topics", "damaged", TOPIC)
    assert listed["damaged"] == []
    assert [one["firstEntryId"] for one in listed["setAside"]] == [1]
    (file,) = quarantined(running)
    assert body(TOPIC, 2).encode()[1:] in file.read_bytes()
    (report,) = running.data_dir.rglob("quarantine/*.json")
    (reported,) = json.loads(report.read_text())["damaged"]
    assert (reported["file"], reported["first_entry"]) == (file.name, 1)


def test_it_holds_after_a_restart_and_a_check_finds_no_damage(make_broker: Make) -> None:
    running = rotten(make_broker)
    done(running, "topics", "skip-damaged", TOPIC, "--scan")
    rest = [body(TOPIC, number) for number in (1, 3, 4)]
    assert read_all(running) == rest
    running.kill()
    running.start()
    assert read_all(running) == rest
    assert running.stop() == 0
    verified = command(running, "verify", str(running.data_dir))
    assert (verified.exit_code, "set aside" in verified.output) == (0, True), verified.output
    running.start()
    assert read_all(running) == rest


def test_the_last_message_may_be_the_one_that_is_set_aside(make_broker: Make) -> None:
    running = make_broker()
    publish(running, TOPIC)
    assert running.stop() == 0
    rot(running.data_dir, body(TOPIC, 4).encode())
    running.start()
    done(running, "topics", "skip-damaged", TOPIC, "--scan")
    assert read_all(running) == [body(TOPIC, number) for number in (1, 2, 3)]
    client = connect(running.service_url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    found: list[str] = []
    while reader.has_message_available():
        found.append(reader.read_next(int(TIMEOUT_S * 1000)).data().decode())
    assert found == [body(TOPIC, number) for number in (1, 2, 3)]
    client.close()
    publish(running, TOPIC)
    assert len(read_all(running)) == 7


def test_of_a_partitioned_topic_all_partitions_are_set_aside(make_broker: Make) -> None:
    parts = [f"{TOPIC}-partition-{number}" for number in range(2)]
    running = make_broker()
    assert Admin(running).put(f"{PATH}/partitions", 2).status == 204
    publish(running, *parts)
    assert running.stop() == 0
    rot(running.data_dir, *(body(part, 2).encode() for part in parts))
    running.start()
    found = answered(running, "topics", "skip-damaged", TOPIC, "--scan")["setAside"]
    assert sorted(one["topic"] for one in found) == parts
    result = command(running, "read", TOPIC)
    assert result.exit_code == 0, result.output
    assert result.output.count(" message ") == 6


def test_with_the_setting_it_is_skipped_loudly(make_broker: Make) -> None:
    running = rotten(make_broker, magnetarDamagedEntries="skip")
    client = connect(running.service_url)
    consumer = client.subscribe(TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert texts(take(consumer, 3)) == [body(TOPIC, number) for number in (1, 3, 4)]
    client.close()
    assert "set aside, with a copy in quarantine (magnetarDamagedEntries=skip)" in running.log
    assert metric(running, "magnetar_damaged_entries_set_aside_total") == 1
    assert len(quarantined(running)) == 1


# Before readers meet it -----------------------------------------------------------------


def test_the_scrubber_finds_damage_that_nobody_has_read(make_broker: Make) -> None:
    running = rotten(make_broker, magnetarScrubIntervalInSeconds="1")
    while (found := detailed(running))["status"] == "ok":
        pass
    (one,) = found["damaged"]
    assert (one["topic"], one["firstEntryId"]) == (TOPIC, 1)
    assert metric(running, "magnetar_damaged_entries") == 1
    await_true(lambda: metric(running, "magnetar_scrubbed_bytes_total") > 0, "the rest is read")
    assert running.log.count("damaged entries: ") == 1


def test_what_one_worker_finds_is_set_aside_by_the_worker_that_serves_the_topic(
    make_broker: Make,
) -> None:
    topics = [f"{TOPIC}-{number}" for number in range(6)]
    running = make_broker(magnetarWorkers="1")
    publish(running, *topics)
    assert running.stop() == 0
    rot(running.data_dir, *(body(topic, 2).encode() for topic in topics))
    running.settings |= {"magnetarWorkers": "3", "magnetarScrubIntervalInSeconds": "1"}
    running.start()
    stats = [Admin(running).get(f"{topic.replace('://', '/')}/stats").json for topic in topics]
    owners = {one["ownerBroker"] for one in stats}
    assert len(owners) > 1, "the segments of some topics are another worker's"
    while len(detailed(running)["damaged"]) < len(topics):
        pass
    for topic in topics:
        (one,) = answered(running, "topics", "skip-damaged", topic)["setAside"]
        assert (one["topic"], one["firstEntryId"]) == (topic, 1)
        result = command(running, "read", topic)
        assert result.exit_code == 0, result.output
        assert result.output.count(" message ") == 3


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_who_shares_a_subscription_gets_the_rest_and_is_told_what_is_missing(
    make_broker: Make, kind: str
) -> None:
    running = rotten(make_broker)

    async def consume() -> None:
        async with magnetar.connect(running.service_url) as client:
            consumer = await client.subscribe(TOPIC, "s", type=kind, initial_position="earliest")
            for number in (1, 3, 4):
                message = await consumer.receive(TIMEOUT_S)
                assert message.data.decode() == body(TOPIC, number)
                consumer.ack(message)
            with pytest.raises(magnetar.Damaged) as raised:
                await consumer.receive(TIMEOUT_S)
            error = raised.value
            assert (error.message_id[:2], error.entries) == ((message.id.ledger, 1), 1)
            assert f"skip-damaged {TOPIC}" in str(error) and "nothing" not in str(error)
            await (await client.producer(TOPIC)).send(b"later")
            assert (await consumer.receive(TIMEOUT_S)).value == b"later"

    asyncio.run(consume())
    words = ("consume", TOPIC, "-s", "of the command", "-t", kind)
    result = command(running, *words)
    assert result.exit_code == 1, result.output
    shown = [body(TOPIC, number) in result.output for number in range(1, 5)]
    assert shown == [True, False, True, True]
    assert f"magnetar admin topics skip-damaged {TOPIC}" in result.output
    done(running, "topics", "skip-damaged", TOPIC)
    assert command(running, *words).exit_code == 0
