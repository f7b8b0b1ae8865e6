"""The official client reads a topic whose first nine tenths are only in a store of objects.

`TIERED_MESSAGES` is the number of messages: 100,000 unless it is set, 10 million in
`make test-tiered-many`.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pulsar
import pytest

import object_servers
from admin_http import Admin
from fakes.waiting import await_true
from official import TIMEOUT_MS, connect
from running_broker import RunningBroker
from tiered_broker import files_of, ledgers_of, offload_status, on_request, path_of

MESSAGES = int(os.environ.get("TIERED_MESSAGES", "100000"))
BATCH = 1000
LEDGERS = 20
TOPIC = "persistent://public/default/many"

if WHY := object_servers.why_no_versitygw():
    pytest.skip(WHY, allow_module_level=True)


def fill(client: pulsar.Client) -> None:
    """Publish numbers in batches; a few batches are under way together, so that ledgers end."""
    producer = client.create_producer(
        TOPIC, batching_enabled=True, batching_max_messages=BATCH, block_if_queue_full=True,
        max_pending_messages=3 * BATCH, batching_max_publish_delay_ms=1000,
    )  # fmt: skip
    failures: list[pulsar.Result] = []

    def received(result: pulsar.Result, _: pulsar.MessageId) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    for number in range(MESSAGES):
        producer.send_async(b"%d" % number, received)
    producer.flush()
    producer.close()
    assert not failures


@pytest.mark.timeout(0)
def test_nine_tenths_are_read_from_the_store(
    make_broker: Callable[..., RunningBroker], tmp_path: Path
) -> None:
    with object_servers.versitygw(tmp_path / "objects") as endpoint:
        settings = on_request(endpoint, "many") | {
            "managedLedgerMaxEntriesPerLedger": str(max(MESSAGES // BATCH // LEDGERS, 1))
        }
        broker = make_broker(**settings)
        client = connect(broker.service_url)
        fill(client)
        ledgers = [one["ledgerId"] for one in ledgers_of(broker, TOPIC)]
        first_kept = len(ledgers) * 9 // 10
        assert 0 < first_kept < len(ledgers)
        body = {"ledgerId": ledgers[first_kept], "entryId": 0}
        assert Admin(broker).put(f"{path_of(TOPIC)}/offload", body).status == 204
        assert offload_status(broker, TOPIC)["status"] == "SUCCESS"
        moved = ledgers[:first_kept]
        await_true(lambda: not files_of(broker, moved), "what was offloaded is deleted here")
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        for number in range(MESSAGES):
            message = reader.read_next(timeout_millis=TIMEOUT_MS)
            assert message.data() == b"%d" % number
        assert not reader.has_message_available()
        client.close()
        assert not files_of(broker, moved)
        broker.stop()
