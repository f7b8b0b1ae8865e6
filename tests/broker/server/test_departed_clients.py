"""What a client needed is freed when it has left, without a run of the garbage collector.

Collections are rare, since messages leave no cyclic garbage: until the next one, clients that come
and leave would add to the memory of the process.
"""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from broker.server.test_upstreams import connected, expect, produce, subscribe, topic_of
from fakes.loops import on_both_loops
from fakes.waiting import until
from fakes.workers import AsyncClient, group, sessions_ended
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import encode_flow
from raw_client import send_frame

TOPIC = topic_of(0)


@pytest.fixture(autouse=True)
def _without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def visit(client: AsyncClient) -> None:
    """Publish, receive, and watch the topics of the namespace."""
    await client.send(produce(1, TOPIC))
    await expect(client, pb.CommandProducerSuccess)
    await client.send(subscribe(2, TOPIC))
    await expect(client, pb.CommandSuccess)
    await client.send(encode_flow(1, 10) + send_frame(0, b"x"))
    kinds = {type(await client.receive()) for _ in range(2)}
    assert kinds == {pb.CommandSendReceipt, pb.CommandMessage}
    watch = pb.CommandWatchTopicList(
        request_id=3, watcher_id=1, namespace="public/default", topics_pattern=".*"
    )
    await client.send(encode(watch))
    await expect(client, pb.CommandWatchTopicListSuccess)


@on_both_loops
@pytest.mark.parametrize("closed_by", ["client", "broker"])
async def test_session_and_connection_are_freed_at_once(closed_by: str) -> None:
    async with group(1) as workers:
        worker = workers.workers[0]
        client = await connected(workers)
        await visit(client)
        (connection,) = worker.listener.connections
        session = connection.session
        remains = ref(connection), ref(session)
        if closed_by == "broker":
            session.disconnect("the test ends it")
        del connection, session
        await client.close()
        await sessions_ended(workers.workers)
        await until(
            lambda: remains[0]() is None and remains[1]() is None,
            "session and connection are freed",
        )
