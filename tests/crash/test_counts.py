"""Counts of redeliveries are as durable as acknowledgements."""

from collections import Counter
from collections.abc import Callable
from random import Random

from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

TOPIC = "persistent://public/default/counted"
SHARED = pb.CommandSubscribe.Shared
MESSAGES = 40
LIVES = 4
Place = tuple[int, int]


def test_counts_survive_kill_9(make_broker: Callable[..., RunningBroker]) -> None:
    """Each life asks for redeliveries, and for a receipt of an ack behind them, and is killed."""
    dice = Random(5)
    broker = make_broker()
    with RawClient(broker.port) as client:
        client.produce(TOPIC)
        client.subscribe(TOPIC, "workers", SHARED)
        for number in range(MESSAGES):
            client.publish(number, b"x")
    expected = Counter[Place]()
    for life in range(LIVES):
        with RawClient(broker.port) as client:
            client.subscribe(TOPIC, "workers", SHARED)
            client.flow(100 * MESSAGES)
            found = counts_of(client, MESSAGES - life)
            assert {place: count for place, count in found.items() if count} == expected
            for _ in range(5):
                again = dice.sample(sorted(found), dice.randrange(1, 6))
                redeliver(client, again)
                expected.update(again)
                assert counts_of(client, len(again)) == {one: expected[one] for one in again}
            acked = dice.choice(sorted(found))
            client.ack([(*acked, ())])
            del expected[acked]
            broker.kill()
        broker.start()


def counts_of(client: RawClient, messages: int) -> dict[Place, int]:
    """How often each of the next messages was redelivered."""
    commands = [client.next_message().command for _ in range(messages)]
    return {
        (command.message_id.ledgerId, command.message_id.entryId): command.redelivery_count
        for command in commands
    }


def redeliver(client: RawClient, places: list[Place]) -> None:
    ids = [pb.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in places]
    client.send(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))
