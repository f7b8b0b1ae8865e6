"""Requests that need a process which ends: clients are told to try again.

The process is first stopped (SIGSTOP), so that the requests wait for it when it is killed.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from admin_http import Admin
from broker.server.processes.test_worker import worker_pids
from crash.victims import Processes
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from moving import owner_of
from official import connect, publish, take, texts
from raw_client import RawClient, id_of, refused
from running_broker import RunningBroker

TOPICS = [f"persistent://public/default/topic-{number}" for number in range(9)]
NEW_TOPICS = [f"persistent://public/default/new-{number}" for number in range(9)]
NAMESPACE = "public/default"
CONSUMER, UNSUBSCRIBED, NEW_CONSUMER = range(1, 4)
SCHEMA = pb.Schema(name="s", schema_data=b"", type=pb.Schema.Type.String)
BEHIND_THE_ACK = ("CommandSubscribe", "CommandUnsubscribe", "CommandSeek")
"""Requests that are carried out after the acknowledgement before them is stored."""
Make = Callable[..., RunningBroker]


@pytest.fixture
def several(make_broker: Make) -> RunningBroker:
    """Start a broker of two workers, with a message and two subscriptions in each topic.

    It is then restarted: the first change of a subscription must be listed in the metadata.
    """
    # The session timeout would end a process that is stopped.
    broker = make_broker(magnetarWorkers="2", metadataStoreSessionTimeoutMillis="3600000")
    client = connect(broker.service_url)
    for topic in TOPICS:
        for subscription in ("sub", "doomed"):
            client.subscribe(topic, subscription).close()
        publish(client.create_producer(topic), "first")
    client.close()
    return broker.restart()


def controller_pid(broker: RunningBroker) -> int:
    """Return the controller's process: the latest one that the supervisor has logged."""
    return int(re.findall(r"controller is process (\d+)", broker.log)[-1])


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process within the block, and kill it at its end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


LOOKUPS = (pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse)


def is_to_be_tried_again(answer: Any) -> bool:
    """Tell whether an answer, to any command, is a refusal after which clients try again."""
    # When a lookup is refused with ServiceNotReady, clients close the connection.
    code = pb.MetadataError if isinstance(answer, LOOKUPS) else pb.ServiceNotReady
    error = "error" if hasattr(answer, "error") else "error_code"
    return bool(getattr(answer, error) == code)


def requests(topic: str, new_topic: str) -> list[Any]:
    """Return requests that need the controller."""
    return [
        pb.CommandLookupTopic(topic=topic, request_id=0),
        pb.CommandPartitionedTopicMetadata(topic=topic, request_id=0),
        pb.CommandGetTopicsOfNamespace(namespace=NAMESPACE, request_id=0),
        pb.CommandWatchTopicList(
            namespace=NAMESPACE, topics_pattern=f"{NAMESPACE}/.*", watcher_id=1, request_id=0
        ),
        pb.CommandGetSchema(topic=topic, request_id=0),
        pb.CommandGetOrCreateSchema(topic=topic, schema=SCHEMA, request_id=0),
        pb.CommandProducer(topic=topic, producer_id=1, request_id=0),
        pb.CommandProducer(topic=new_topic, producer_id=2, request_id=0),
        pb.CommandSubscribe(
            topic=topic, subscription="new", subType=pb.CommandSubscribe.Shared,
            consumer_id=NEW_CONSUMER, request_id=0,
        ),
        pb.CommandUnsubscribe(consumer_id=UNSUBSCRIBED, request_id=0),
        pb.CommandSeek(consumer_id=CONSUMER, message_publish_time=1, request_id=0),
    ]  # fmt: skip


def test_requests_are_tried_again_when_the_controller_ends(several: RunningBroker) -> None:
    topic = TOPICS[0]
    owner = owner_of(several.port, topic)
    new_topic = next(one for one in NEW_TOPICS if owner_of(several.port, one) == owner)
    with RawClient.of_topic(several.port, topic) as client:
        client.subscribe(topic, "doomed", consumer_id=UNSUBSCRIBED)
        client.subscribe(topic, "sub", consumer_id=CONSUMER)
        client.flow(1, CONSUMER)
        message = id_of(client.next_message())
        sent: dict[int, str] = {}
        with stopped(controller_pid(several)):
            ack = [(message.ledger, message.entry, ())]
            acked = client.next_request()
            client.send_bytes(encode_ack(CONSUMER, pb.CommandAck.Individual, ack, acked))
            for request in requests(topic, new_topic):
                request.request_id = client.next_request()
                sent[request.request_id] = type(request).__name__
                client.send(request)
            client.ping()
        assert not client.answer_to(acked).HasField("error"), "it was stored by the next controller"
        for request_id, name in sent.items():
            answer = client.answer_to(request_id)
            # A caller that waits for the acknowledgement asks the next controller.
            is_done = name in BEHIND_THE_ACK and not isinstance(answer, pb.CommandError)
            assert is_done or is_to_be_tried_again(answer), (name, answer)
        assert isinstance(client.produce(new_topic, 3), pb.CommandProducerSuccess)
    official = connect(several.service_url)
    for one in TOPICS:
        # The seek is by a time before all messages, and comes after the acknowledgement.
        assert texts(take(official.subscribe(one, "sub"), 1)) == ["first"]
    official.close()


def test_topics_are_closed_in_order_when_the_supervisor_ends(several: RunningBroker) -> None:
    client = connect(several.service_url)
    for topic in TOPICS:
        publish(client.create_producer(topic), "second")
    client.close()
    workers = worker_pids(several)
    prompt, all_others = (
        Processes([workers[1]]),
        Processes([controller_pid(several), *workers.values()]),
    )
    os.kill(workers[0], signal.SIGSTOP)  # it closes its topics when all others have stopped
    os.kill(several.pid, signal.SIGKILL)
    prompt.await_end()
    os.kill(workers[0], signal.SIGCONT)
    all_others.await_end()
    for processes in (prompt, all_others):
        processes.close()
    assert "could not be sealed" not in several.log
    assert several.try_start(), several.log_of_start


def test_requests_are_tried_again_when_the_topics_worker_ends(several: RunningBroker) -> None:
    topic = TOPICS[0]
    owner = owner_of(several.port, topic)
    path, admin = topic.replace("://", "/"), Admin(several)
    with (
        RawClient(several.port, process=f"worker-{1 - owner}:{several.port}") as client,
        ThreadPoolExecutor() as threads,
    ):
        client.subscribe(topic)  # over the connection of this worker to the other one
        with stopped(worker_pids(several)[owner]):
            answers = [
                threads.submit(admin.get, f"{path}/subscriptions"),
                threads.submit(admin.put, f"{path}/subscription/new"),
                threads.submit(admin.post, f"{path}/terminate"),
            ]
            produce = pb.CommandProducer(topic=topic, producer_id=1, request_id=0)
            produce.request_id = client.next_request()
            client.send(produce)
            client.ping()
        refused(client.answer_to(produce.request_id), pb.ServiceNotReady, "try again")
        for answer in answers:  # one that came later may have waited for the next process
            status = answer.result().status
            assert status < 300 or (status == 503 and "retry" in answer.result().reason)
