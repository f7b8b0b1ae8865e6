"""Clients that name an advertised listener connect to that listener's address."""

from pathlib import Path

import official
from fuzz.record import Relay
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

TOPIC = "persistent://public/default/t"


def test_a_client_connects_at_its_listener(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path / "data")
    relay = Relay(broker.port, advertised=True)
    inside, outside = broker.service_url, f"pulsar://127.0.0.1:{relay.port}"
    broker.settings["advertisedListeners"] = f"in:{inside},out:{outside}"
    broker.start()
    try:
        for name in (None, "in"):
            with_client(inside, name)
            assert not relay.sent, "a client of another listener came to this one"
        with_client(inside, "out")
        assert any(b"payload" in sent for sent in relay.sent)
    finally:
        relay.close()
        broker.close()


def with_client(url: str, listener: str | None) -> None:
    client = official.connect(url, listener_name=listener)
    try:
        consumer = client.subscribe(TOPIC, f"sub-{listener}")
        client.create_producer(TOPIC).send(b"payload")
        consumer.acknowledge(consumer.receive(official.TIMEOUT_MS))
    finally:
        client.close()


def test_a_client_of_an_unknown_listener_gets_no_address(raw: RawClient, topic: str) -> None:
    """An official client tries again until its time is over."""
    lookup = pb.CommandLookupTopic(topic=topic, request_id=0, advertised_listener_name="elsewhere")
    found = raw.request(lookup)
    assert found.response == pb.CommandLookupTopicResponse.Failed
    assert "elsewhere" in found.message
