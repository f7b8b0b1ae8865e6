"""kill -9 while schemas are registered: what was answered is there, with its number, and once."""

import struct
from pathlib import Path

from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

ROUNDS, TOPICS, SCHEMAS = 3, 3, 30
Registered = dict[tuple[str, bytes], int]
"""The version that was answered for a schema of a topic."""


def topic(number: int) -> str:
    return f"persistent://public/default/schemas-{number}"


def schema(data: bytes) -> pb.Schema:
    return pb.Schema(name="", type=pb.Schema.External, schema_data=data)


def numbered(version: bytes) -> int:
    (number,) = struct.unpack(">q", version)
    return int(number)


def register_until_killed(broker: RunningBroker, round_number: int, answers: int) -> Registered:
    """Ask for all at once; kill the broker when so many are answered."""
    registered: Registered = {}
    asked: dict[int, tuple[str, bytes]] = {}
    with RawClient(broker.port) as raw:
        for number in range(TOPICS):
            assert isinstance(raw.produce(topic(number), number), pb.CommandProducerSuccess)
        for count in range(SCHEMAS):
            name, data = topic(count % TOPICS), b"%d-%d" % (round_number, count // 2)
            request = raw.next_request()
            asked[request] = name, data
            raw.send(
                pb.CommandGetOrCreateSchema(request_id=request, topic=name, schema=schema(data))
            )
        for request in list(asked)[:answers]:
            answer = raw.answer_to(request)
            assert not answer.HasField("error_code"), answer
            registered[asked[request]] = numbered(answer.schema_version)
    broker.kill()
    return registered


def check(broker: RunningBroker, registered: Registered) -> None:
    """All that was answered reads the same, and is not registered again."""
    with RawClient(broker.port) as raw:
        for (name, data), number in registered.items():
            version = struct.pack(">q", number)
            get = pb.CommandGetSchema(request_id=0, topic=name, schema_version=version)
            assert raw.request(get).schema.schema_data == data
        for number in range(TOPICS):
            seen: dict[bytes, int] = {}
            latest = raw.request(pb.CommandGetSchema(request_id=0, topic=topic(number)))
            if latest.error_code == pb.TopicNotFound:
                continue  # nothing was registered in time
            for index in range(numbered(latest.schema_version) + 1):
                packed = struct.pack(">q", index)
                get = pb.CommandGetSchema(request_id=0, topic=topic(number), schema_version=packed)
                data = raw.request(get).schema.schema_data
                assert data and data not in seen, "each version is whole, and registered once"
                seen[data] = index


def test_what_was_answered_is_there_with_its_number(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path / "data", schemaCompatibilityStrategy="ALWAYS_COMPATIBLE")
    registered: Registered = {}
    try:
        for round_number in range(ROUNDS):
            broker.start()
            answers = 1 + round_number * SCHEMAS // ROUNDS
            registered |= register_until_killed(broker, round_number, answers)
            broker.start()
            check(broker, registered)
            broker.kill()
    finally:
        broker.close()
    assert len(registered) > ROUNDS
