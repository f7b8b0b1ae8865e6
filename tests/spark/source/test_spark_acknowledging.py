"""The subscription of a query, on a real broker."""

import pytest

import magnetar
from pyspark_magnetar.bridge import bridge_to
from pyspark_magnetar.source.acknowledging import Acknowledger
from pyspark_magnetar.source.read_options import ReadOptions
from running_broker import RunningBroker
from spark.source_driver import admin, new_topic, numbered, send, wait_for_mark


@pytest.mark.parametrize("failure", [magnetar.OperationTimeout("no answer"), ArithmeticError("?")])
def test_the_next_batch_acknowledges_behind_a_failure(
    broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
) -> None:
    topic = new_topic()
    ids = send(broker, topic, numbered(0, 21))
    options = ReadOptions.parse(
        {"service.url": broker.service_url, "topic": topic}, is_streaming=True
    )
    acknowledger = Acknowledger(bridge_to(options.connecting), "of-spark")

    async def fail(consumer: magnetar.Consumer[bytes]) -> None:
        monkeypatch.undo()
        raise failure

    monkeypatch.setattr(magnetar.Consumer, "flush", fail)
    for at in (ids[0], ids[-1]):
        acknowledger.ack({topic: (at.ledger, at.entry)})
    wait_for_mark(broker, topic, ids[-1].ledger, ids[-1].entry)
    assert f"cannot be acknowledged on subscription of-spark: {failure}" in caplog.text
    stats = admin(broker, "GET", f"{topic.rsplit('/', 1)[1]}/stats")
    assert len(stats["subscriptions"]["of-spark"]["consumers"]) == 1
