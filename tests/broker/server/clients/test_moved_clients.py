"""Clients whose topic moves to another worker: the reply depends on how each one connected."""

import pytest

from broker.server.clients.test_upstreams import produce, topic_of
from fakes.loops import on_both_loops
from fakes.workers import address, connect_frame, group
from magnetar_proto import PulsarApi_pb2 as pb

COUNT = 3
TOLD = f"pulsar://{address(2)}"


@on_both_loops
@pytest.mark.parametrize(
    ("named", "server", "owner", "told"),
    [
        (address(1), 1, 1, TOLD),
        (address(0), 0, 0, TOLD),
        (address(0), 0, 1, ""),
        (address(1), 1, 0, ""),
        ("", 0, 0, ""),
        ("", 0, 1, ""),
    ],
    ids=[
        "passed on to the owner",
        "accepted by the owner that it named",
        "accepted by the worker that it named, and relayed",
        "passed on, and relayed",
        "accepted by the owner by chance",
        "relayed",
    ],
)
async def test_a_client_is_told_the_new_owner_if_it_named_the_former(
    named: str, server: int, owner: int, told: str
) -> None:
    async with group(COUNT) as workers:
        client = await workers.client(connect_frame(named))
        assert await client.served_by() == server
        topic = topic_of(owner, COUNT)
        await client.send(produce(1, topic))
        assert isinstance(await client.receive(), pb.CommandProducerSuccess)
        await workers.move(topic, 2, TOLD)
        closed = await client.receive()
        assert isinstance(closed, pb.CommandCloseProducer)
        assert closed.assignedBrokerServiceUrl == told
        assert closed.assignedBrokerServiceUrlTls == told.replace("pulsar://", "pulsar+ssl://")
        await client.send(produce(2, topic))
        assert isinstance(await client.receive(), pb.CommandProducerSuccess)
        assert workers.serving(topic) == [2]
        await client.close()
