"""Single messages, positions and sizes of backlogs over HTTP."""

import json
from base64 import b64decode
from collections.abc import Iterator

import pulsar
import pytest

from admin_http import Admin, Answer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from magnetar_proto.entries import encode_entry
from official import batching, connect, publish, publish_batch
from raw_client import RawClient, metadata, send_frame_of
from running_broker import RunningBroker

TIME_MS = 1_700_000_000_000
LATER_MS = 4_000_000_000_000


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[pulsar.Client]:
    client = connect(broker.service_url)
    yield client
    client.close()


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def ids_of(*receipts: pulsar.MessageId) -> list[str]:
    return [f"{one.ledger_id()}:{one.entry_id()}" for one in receipts]


class Odd:
    """A topic to which entries with any metadata are published."""

    def __init__(self, raw: RawClient, admin: Admin, topic: str) -> None:
        self.raw, self.admin, self.topic = raw, admin, topic
        self.sent = 0
        raw.produce(topic)

    def shown(self, head: pb.MessageMetadata, payload: bytes) -> Answer:
        """Publish an entry, and return the answer that shows it."""
        self.raw.send_bytes(send_frame_of(encode_entry(head, payload), self.sent))
        self.sent += 1
        found = self.raw.expect(pb.BaseCommand.SEND_RECEIPT).message_id
        return self.admin.get(
            f"{path_of(self.topic)}/ledger/{found.ledgerId}/entry/{found.entryId}"
        )


@pytest.fixture
def odd(raw: RawClient, admin: Admin, topic: str) -> Odd:
    return Odd(raw, admin, topic)


# Messages ----------------------------------------------------------------------------------


def test_peek_shows_payload_and_metadata_and_consumes_nothing(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    path = path_of(topic)
    assert admin.put(path).status == 204
    assert admin.put(f"{path}/subscription/sub", "earliest").status == 204
    producer = client.create_producer(topic, producer_name="p", batching_enabled=False)
    sent = producer.send(
        b"one",
        properties={"a": "1", "umlaut": "ä☃"},
        partition_key="key",
        ordering_key="order",
        event_timestamp=1234,
    )
    (second,) = publish(producer, "two")
    for _ in range(2):  # nothing is consumed by looking
        answer = admin.get(f"{path}/subscription/sub/position/1")
        assert (answer.status, answer.body) == (200, b"one")
        found = answer.headers
        assert [found["X-Pulsar-Message-ID"]] == ids_of(sent)
        assert json.loads(found["X-Pulsar-PROPERTY"]) == {"a": "1", "umlaut": "ä☃"}
        assert found["X-Pulsar-event-time"] == "1970-01-01T00:00:01.234Z"
        assert found["X-Pulsar-producer-name"] == "p"
        assert found["X-Pulsar-sequence-id"] == "0"
        assert found["X-Pulsar-partition-key"] == "key"
        assert b64decode(found["X-Pulsar-Base64-ordering-key"]) == b"order"
        assert found["X-Pulsar-Is-Encrypted"] == "false"
        assert "X-Pulsar-num-batch-message" not in found
    behind = admin.get(f"{path}/subscription/sub/position/2")
    assert [behind.headers["X-Pulsar-Message-ID"]] == ids_of(second)
    assert admin.get(f"{path}/subscription/sub/position/3").status == 404
    assert admin.get(f"{path}/subscription/sub/position/0").status == 412
    assert admin.get(f"{path}/subscription/other/position/1").status == 404


def test_peek_counts_what_is_not_acknowledged(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic, batching_enabled=False)
    publish(producer, *map(str, range(6)))
    for text in ("0", "2", "3"):
        while (message := consumer.receive()).data().decode() != text:
            pass
        consumer.acknowledge(message)
        consumer.redeliver_unacknowledged_messages()
    consumer.close()  # acknowledgements are stored before the answer
    path = f"{path_of(topic)}/subscription/sub"
    assert [admin.get(f"{path}/position/{n}").body for n in (1, 2, 3)] == [b"1", b"4", b"5"]
    assert admin.get(f"{path}/position/4").status == 404
    found = admin.post(f"{path}/analyzeBacklog").json
    assert (found["entries"], found["messages"], found["aborted"]) == (3, 3, False)


def test_a_batch_is_shown_as_a_whole_and_uncompressed(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    producer = batching(client, topic, compression_type=pulsar.CompressionType.ZSTD)
    receipts = publish_batch(producer, "a" * 50, "b", "c")
    answer = admin.get(f"{path_of(topic)}/examinemessage")
    assert [answer.headers["X-Pulsar-Message-ID"]] == ids_of(receipts[0])
    assert answer.headers["X-Pulsar-num-batch-message"] == "3"
    assert answer.headers["X-Pulsar-compression"] == "ZSTD"
    assert int(answer.headers["X-Pulsar-uncompressed-size"]) == len(answer.body)
    assert [body for _, body in decode_batch(answer.body, 3)] == [b"a" * 50, b"b", b"c"]


@pytest.mark.parametrize(
    "kind",
    [
        pulsar.CompressionType.LZ4,
        pulsar.CompressionType.ZLib,
        pulsar.CompressionType.SNAPPY,
        pulsar.CompressionType.ZSTD,
    ],
)
def test_a_compressed_message_is_uncompressed(
    admin: Admin, client: pulsar.Client, topic: str, kind: pulsar.CompressionType
) -> None:
    producer = client.create_producer(topic, batching_enabled=False, compression_type=kind)
    publish(producer, "z" * 1000)
    assert admin.get(f"{path_of(topic)}/examinemessage").body == b"z" * 1000


def test_a_schema_version_is_shown(admin: Admin, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=pulsar.schema.StringSchema()).send("text")
    answer = admin.get(f"{path_of(topic)}/examinemessage")
    assert answer.headers["X-Pulsar-Base64-schema-version"] == "AAAAAAAAAAA="


def test_an_encrypted_message_stays_encrypted(odd: Odd) -> None:
    head = metadata(0)
    head.encryption_algo, head.encryption_param = "AES", b"iv"
    head.compression, head.uncompressed_size = pb.LZ4, 5
    for name in ("k1", "k2"):
        head.encryption_keys.add(key=name, value=b"v")
    answer = odd.shown(head, b"cipher")
    assert answer.body == b"cipher"
    assert answer.headers["X-Pulsar-Is-Encrypted"] == "true"
    assert answer.headers["X-Pulsar-encryption-algo"] == "AES"
    assert b64decode(answer.headers["X-Pulsar-Base64-encryption-param"]) == b"iv"
    keys = answer.headers.get_all("X-Pulsar-Base64-encryption-keys") or []
    assert [pb.EncryptionKeys.FromString(b64decode(key)).key for key in keys] == ["k1", "k2"]


def test_metadata_that_is_rarely_set_is_shown(odd: Odd) -> None:
    head = metadata(0)
    head.publish_time, head.event_time, head.deliver_at_time = TIME_MS, 1000, TIME_MS + 500
    head.null_value = True
    head.partition_key, head.partition_key_b64_encoded = "a2V5", True
    head.replicated_from = "east"
    head.replicate_to.extend(["x", "y"])
    found = odd.shown(head, b"").headers
    assert found["X-Pulsar-publish-time"] == "2023-11-14T22:13:20Z"
    assert found["X-Pulsar-deliver-at-time"] == "2023-11-14T22:13:20.5Z"
    assert found["X-Pulsar-event-time"] == "1970-01-01T00:00:01Z"
    assert found["X-Pulsar-null-value"] == "true"
    assert found["X-Pulsar-partition-key-b64-encoded"] == "true"
    assert found["X-Pulsar-replicated-from"] == "east"
    assert found.get_all("X-Pulsar-replicated-to") == ["x", "y"]


def test_text_that_no_header_can_have_adds_no_header(odd: Odd) -> None:
    head = metadata(0)
    head.partition_key = "a\r\nX-Evil: 1 ☃é\0"
    head.properties.add(key="b\r\nX-Evil: 2", value='"☃\r\n')
    found = odd.shown(head, b"").headers
    assert "X-Evil" not in found
    assert found["X-Pulsar-partition-key"] == "a  X-Evil: 1  é"
    assert json.loads(found["X-Pulsar-PROPERTY"]) == {"b\r\nX-Evil: 2": '"☃\r\n'}


@pytest.mark.parametrize("size", [5, 1 << 30])
def test_a_payload_that_does_not_decompress_is_refused(odd: Odd, size: int) -> None:
    head = metadata(0)
    head.compression, head.uncompressed_size = pb.LZ4, size
    answer = odd.shown(head, b"garbage")
    assert answer.status == 412
    assert "cannot be shown" in answer.reason


def test_examine_counts_from_both_ends(admin: Admin, client: pulsar.Client, topic: str) -> None:
    path = path_of(topic)
    assert admin.put(path).status == 204
    assert admin.get(f"{path}/examinemessage").status == 412  # there are no messages
    publish(client.create_producer(topic, batching_enabled=False), "a", "b", "c")

    def found(start: str, position: int) -> bytes:
        query = f"initialPosition={start}&messagePosition={position}"
        return admin.get(f"{path}/examinemessage?{query}").body

    assert [found("earliest", n) for n in (0, 1, 2, 3, 9)] == [b"a", b"a", b"b", b"c", b"c"]
    assert [found("latest", n) for n in (-1, 1, 2, 3)] == [b"c", b"c", b"b", b"a"]
    assert (
        admin.get(f"{path}/examinemessage?initialPosition=latest&messagePosition=4").status == 412
    )
    assert admin.get(f"{path}/examinemessage?initialPosition=middle").status == 412
    assert admin.get(f"{path}/examinemessage?messagePosition=x").status == 404


def test_what_is_not_there_is_refused(admin: Admin, client: pulsar.Client, topic: str) -> None:
    (sent,) = publish(client.create_producer(topic, batching_enabled=False), "a")
    path = path_of(topic)
    for place in (f"{sent.ledger_id()}/entry/1", "999999/entry/0", "-1/entry/-1", "x/entry/0"):
        assert admin.get(f"{path}/ledger/{place}").status == 404, place
    for where in ("examinemessage", "lastMessageId", "messageid/0", "ledger/1/entry/0"):
        assert admin.get(f"{path}-absent/{where}").status == 404, where
        assert admin.get(f"non-{path}/{where}").status == 405, where
    assert admin.put(f"{path}-parted/partitions", 2).status == 204
    for where in ("examinemessage", "subscription/s/position/1", "messageid/0", "backlog"):
        assert admin.get(f"{path}-parted/{where}").status == 405, where
    assert admin.get(f"{path}-parted-partition-1/lastMessageId").json["partitionIndex"] == 1


# Positions and backlogs --------------------------------------------------------------------


def test_positions_by_time_by_index_and_of_the_last_message(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    path = path_of(topic)
    assert admin.put(path).status == 204
    empty = admin.get(f"{path}/lastMessageId").json
    assert (empty["entryId"], empty["partitionIndex"], empty["batchIndex"]) == (-1, -1, -1)
    single = client.create_producer(topic, batching_enabled=False)
    receipts = publish(single, "a", "b")
    receipts += publish_batch(batching(client, topic), "c", "d", "e")

    def at(place: str) -> tuple[int, int]:
        found = admin.get(f"{path}/{place}").json
        return found["ledgerId"], found["entryId"]

    ids = [(one.ledger_id(), one.entry_id()) for one in receipts]
    assert [at(f"getMessageIdByIndex?index={n}") for n in range(5)] == ids
    assert admin.get(f"{path}/getMessageIdByIndex?index=5").status == 404
    assert admin.get(f"{path}/getMessageIdByIndex?index=-1").status == 404
    assert admin.get(f"{path}/getMessageIdByIndex?index=x").status == 404
    assert at("getMessageIdByIndex") == ids[0]
    last = admin.get(f"{path}/lastMessageId").json
    assert last == {
        "ledgerId": ids[-1][0],
        "entryId": ids[-1][1],
        "partitionIndex": -1,
        "batchIndex": 2,
        "batchSize": 0,
    }
    assert at("messageid/0") == ids[0]
    assert at(f"messageid/{LATER_MS}") == (ids[-1][0], ids[-1][1] + 1)
    assert admin.get(f"{path}/messageid/x").status == 404


def test_sizes_of_backlogs(admin: Admin, client: pulsar.Client, topic: str) -> None:
    path = path_of(topic)
    assert admin.put(path).status == 204
    assert admin.put(f"{path}/subscription/sub", "earliest").status == 204
    receipts = publish(client.create_producer(topic, batching_enabled=False), *["x" * 100] * 4)
    publish_batch(batching(client, topic), "c", "d")

    def behind(place: object) -> int:
        return int(admin.put(f"{path}/backlogSize", place).json)

    sizes = [behind({"ledgerId": one.ledger_id(), "entryId": one.entry_id()}) for one in receipts]
    whole = behind({"ledgerId": -1, "entryId": -1})
    assert sizes == sorted(sizes, reverse=True)
    assert whole > sizes[0] > sizes[-1] > 0
    assert behind("latest") == 0
    assert admin.put(f"{path}/backlogSize", "nowhere").status == 400
    assert admin.put(f"{path}/backlogSize").status == 400

    found = admin.post(f"{path}/subscription/sub/analyzeBacklog").json
    assert (found["entries"], found["messages"]) == (5, 6)
    assert [found["firstMessageId"]] == ids_of(receipts[0])
    third = {"ledgerId": receipts[2].ledger_id(), "entryId": receipts[2].entry_id()}
    found = admin.post(f"{path}/subscription/sub/analyzeBacklog", third).json
    assert (found["entries"], found["messages"]) == (3, 4)
    assert [found["firstMessageId"]] == ids_of(receipts[2])
    assert admin.post(f"{path}/subscription/none/analyzeBacklog").status == 404

    stored = admin.get(f"{path}/backlog").json
    assert (stored["totalMessages"], stored["messageBacklog"]) == (6, 6)
    assert stored["storageSize"] == whole
    assert stored["cursorDetails"] == {"sub": {"cursorBacklog": 6}}
