"""Coordinators of a running broker that is killed."""

import signal
from collections.abc import Callable
from typing import Any

import psutil

from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import Closed, RawClient
from running_broker import RunningBroker

TOPIC = "persistent://public/default/in-transactions"


def connected(broker: RunningBroker, number: int) -> RawClient:
    """To the process that has a coordinator, as clients find it."""
    client = RawClient.of_topic(broker.port, str(COORDINATORS.with_partition(number)))
    answer = client.request(pb.CommandTcClientConnectRequest(request_id=0, tc_id=number))
    assert not answer.message
    return client


def begin(client: RawClient, number: int, ttl_ms: int = 600_000) -> int:
    answer = client.request(pb.CommandNewTxn(request_id=0, txn_ttl_millis=ttl_ms, tc_id=number))
    assert not answer.message and answer.txnid_most_bits == number
    return int(answer.txnid_least_bits)


def of(client: RawClient, kind: type[Any], number: int, least: int, **fields: Any) -> Any:
    return client.request(
        kind(request_id=0, txnid_most_bits=number, txnid_least_bits=least, **fields)
    )


def test_all_coordinators_serve_clients(broker: RunningBroker) -> None:
    for number in range(16):
        with connected(broker, number) as client:
            least = begin(client, number)
            added = of(client, pb.CommandAddPartitionToTxn, number, least, partitions=[TOPIC])
            assert not added.message
            assert not of(client, pb.CommandEndTxn, number, least, txn_action=pb.COMMIT).message


def test_what_was_answered_is_there_after_a_kill(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    with connected(broker, 5) as client:
        leasts = [begin(client, 5) for _ in range(3)]
        assert leasts == [0, 1, 2]
        assert not of(client, pb.CommandEndTxn, 5, 0, txn_action=pb.COMMIT).message
    broker.kill()
    broker.start()
    with connected(broker, 5) as client:
        assert begin(client, 5) == 3
        for least in leasts:  # the first one once more, as after an answer that was lost
            assert not of(client, pb.CommandEndTxn, 5, least, txn_action=pb.COMMIT).message
        wrong = of(client, pb.CommandEndTxn, 5, 1, txn_action=pb.ABORT)
        assert wrong.error == pb.TransactionNotFound and "COMMITTED" in wrong.message


def test_a_process_that_is_killed_has_its_coordinators_again(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(magnetarWorkers="3")
    for position in range(3):
        _check_after_killing(broker, psutil.Process(broker.pid).children()[position])


def _check_after_killing(broker: RunningBroker, worker: psutil.Process) -> None:
    opened = {}
    for number in range(4):
        with connected(broker, number) as client:
            opened[number] = begin(client, number)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    for number, least in opened.items():
        while True:  # until the process is there again
            try:
                with connected(broker, number) as client:
                    ended = of(client, pb.CommandEndTxn, number, least, txn_action=pb.ABORT)
                break
            except (Closed, AssertionError, ConnectionError):
                continue
        assert not ended.message
