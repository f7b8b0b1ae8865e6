"""What entries may contain: encrypted ones, and ones that cannot be read."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

import magnetar
from client.key_pairs import key_pair
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import RawClient, metadata, send_frame_of
from running_broker import RunningBroker
from spark.source_driver import batch, new_topic, numbered, send, values


def send_encrypted(
    broker: RunningBroker, topic: str, public: bytes, sent: Sequence[bytes], name: str = "k"
) -> list[magnetar.MessageId]:
    async def run() -> list[magnetar.MessageId]:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(
                topic,
                encryption_keys=[name],
                key_reader=magnetar.KeyReader(public=public),
                batching=magnetar.BatchLimits(max_messages=7),
                compression="zstd",
            )
            return await producer.send_batch(sent)

    return asyncio.run(run())


def test_encrypted_messages_are_read_with_keys_by_name(
    broker: RunningBroker, tmp_path: Path
) -> None:
    topic = new_topic()
    public, private = key_pair("k")
    send_encrypted(broker, topic, public, numbered(0, 30))
    (tmp_path / "k.pem").write_bytes(private)
    for keys in (tmp_path, tmp_path / "k.pem"):
        reader = batch(broker, topic, decryptionKeys=str(keys))
        assert values(reader, reader.partitions()) == numbered(0, 30)


@pytest.mark.parametrize("name", ["k", "../k"])
def test_without_the_key_the_task_fails_or_skips(
    broker: RunningBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    topic = new_topic()
    public, private = key_pair("k")
    (tmp_path / "k.pem").write_bytes(private)
    (tmp_path / "keys").mkdir()
    send(broker, topic, numbered(0, 7))
    [first, *_] = send_encrypted(broker, topic, public, numbered(7, 14), name)
    send(broker, topic, numbered(14, 21))
    keys = str(tmp_path / "keys")
    reader = batch(broker, topic, decryptionKeys=keys)
    with pytest.raises(magnetar.DecryptionFailed, match=f"entry {first.ledger}:{first.entry} of"):
        values(reader, reader.partitions())
    skipping = batch(broker, topic, decryptionKeys=keys, onUnreadable="skip")
    with caplog.at_level(logging.WARNING):
        assert values(skipping, skipping.partitions()) == numbered(0, 7) + numbered(14, 21)
    assert f"{topic}: 1 entries could not be read, and were left out" in caplog.text


def test_a_batch_that_is_no_batch_fails_or_is_skipped(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 7))
    spoiled = send_spoiled(broker, topic)
    send(broker, topic, numbered(7, 14))
    reader = batch(broker, topic)
    where = f"entry {spoiled.ledgerId}:{spoiled.entryId} of {topic} is not a batch"
    with pytest.raises(magnetar.Unreadable, match=where):
        values(reader, reader.partitions())
    skipping = batch(broker, topic, onUnreadable="skip")
    with caplog.at_level(logging.WARNING):
        assert values(skipping, skipping.partitions()) == numbered(0, 14)
    assert where in caplog.text


def send_spoiled(broker: RunningBroker, topic: str) -> pb.MessageIdData:
    """An entry that claims to be a batch and is none."""
    with RawClient(broker.port) as client:
        client.request(pb.CommandLookupTopic(topic=topic, request_id=0))
        client.produce(topic)
        head = metadata(2, num_messages_in_batch=9)
        client.send_bytes(send_frame_of(encode_entry(head, b"no batch"), 2))
        found: pb.MessageIdData = client.expect(pb.BaseCommand.SEND_RECEIPT).message_id
        return found
