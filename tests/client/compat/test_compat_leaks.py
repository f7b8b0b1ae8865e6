"""What was closed is not kept by the client."""

import gc
import uuid
import weakref

import magnetar.compat as pulsar
from running_broker import RunningBroker


def test_what_was_closed_is_let_go(broker: RunningBroker) -> None:
    topic = f"persistent://public/default/compat-{uuid.uuid4().hex[:10]}"
    client = pulsar.Client(broker.service_url)
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "closed")
    other = client.subscribe(topic, "deleted")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    producer.send(b"x")
    held = [weakref.ref(one) for one in (producer._outbox, consumer, other, reader)]
    for close in (producer.close, consumer.close, other.unsubscribe, reader.close):
        close()
    del producer, consumer, other, reader, close
    gc.collect()
    assert [one() for one in held] == [None] * 4
    client.close()
