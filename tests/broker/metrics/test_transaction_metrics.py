"""The metrics of coordinators, under the names that dashboards for Pulsar ask for."""

from fakes.coordinating import CoordinatorWorld
from magnetar_broker.base.transaction_ids import Outcome
from magnetar_broker.metrics.transaction_metrics import counts_of, of_transactions
from magnetar_broker.transactions.figures import LATENCY_BOUNDS_MS


def samples(world: CoordinatorWorld) -> dict[str, float]:
    """Of the only coordinator, by the names without their prefix."""
    text = of_transactions(counts_of(world.broker.coordinators), "c").decode()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.partition('{cluster="c",coordinator_id="4"} ')
            found[name.removeprefix("pulsar_txn_")] = float(value)
    return found


def test_a_coordinator_counts_its_transactions() -> None:
    world = CoordinatorWorld()
    assert samples(world) == {}
    leasts = [world.begin_one(ttl_ms=100_000, number=4).least for _ in range(4)]
    coordinator = world.coordinator(4)
    world.do(coordinator.end(leasts[0], Outcome.COMMIT))
    world.clock.advance(0.4)
    world.do(coordinator.end(leasts[1], Outcome.ABORT))
    world.clock.advance(4000)
    leasts.append(world.begin_one(number=4).least)
    found = samples(world)
    for name, number in {
        "active": 1, "created": 5, "committed": 1, "aborted": 3, "timeout": 2, "append_log": 13,
    }.items():  # fmt: skip
        assert found[f"{name}_count"] == number, name
        if name != "active":
            assert found[f"{name}_total"] == number
    latencies = {bound: found[f"execution_latency_le_{bound}"] for bound in LATENCY_BOUNDS_MS}
    assert {bound: count for bound, count in latencies.items() if count} == {
        10: 1, 500: 1, 300_000: 2,
    }  # fmt: skip
    assert found["execution_latency_overflow"] == 0
