"""The decisions of load balancing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.placement.balance import MIN_GAIN, Bundle, Imbalance, choose, find_imbalance

BUNDLES = [Bundle("a/b", f"0x{number:08x}_0x{number + 1:08x}") for number in range(6)]
LOADS = st.floats(0, 4)
TRAFFIC = st.dictionaries(st.sampled_from(BUNDLES), st.floats(0, 1e6), max_size=len(BUNDLES))


@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ([0.0, 0.0], None),
        ([0.9, 0.9, 0.9], None),
        ([0.9, 0.7], None),  # 0.1 above the average is not more than the threshold
        ([0.9, 0.6], Imbalance(0, 1)),
        ([0.2, 0.4, 0.9], Imbalance(2, 0)),
        ([0.5], None),
    ],
)
def test_imbalance(loads: list[float], found: Imbalance | None) -> None:
    assert find_imbalance(dict(enumerate(loads)), 0.1001) == found


def test_the_bundle_that_makes_both_most_alike_moves() -> None:
    traffic = dict(zip(BUNDLES, [500.0, 300.0, 200.0], strict=False))
    assert choose(traffic, (), 1.0, 0.0) == BUNDLES[0]
    assert choose(traffic, (), 1.0, 0.5) == BUNDLES[1]  # 0.7 and 0.8; the third gives 0.8 and 0.7
    assert choose(traffic, {BUNDLES[1]}, 1.0, 0.5) == BUNDLES[2]
    assert choose(traffic, BUNDLES, 1.0, 0.0) is None


def test_one_hot_bundle_stays() -> None:
    assert choose({BUNDLES[0]: 900.0, BUNDLES[1]: 0.0}, (), 0.95, 0.0) is None
    assert choose({}, (), 0.95, 0.0) is None


@settings(max_examples=examples(500))
@given(TRAFFIC, st.sets(st.sampled_from(BUNDLES)), LOADS, LOADS)
def test_a_move_lowers_the_higher_load(
    traffic: dict[Bundle, float], kept: set[Bundle], one: float, other: float
) -> None:
    busiest, idlest = max(one, other), min(one, other)
    total = sum(traffic.values())

    def higher(bundle: Bundle) -> float:
        part = busiest * traffic[bundle] / total
        return max(busiest - part, idlest + part)

    chosen = choose(traffic, kept, busiest, idlest)
    useful = [bundle for bundle in traffic if traffic[bundle] > 0 and bundle not in kept]
    if chosen is None:
        assert all(higher(bundle) >= busiest - MIN_GAIN for bundle in useful)
    else:
        assert chosen in useful
        assert higher(chosen) < busiest - MIN_GAIN
        assert higher(chosen) == min(map(higher, useful))


@settings(max_examples=examples(200))
@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=6), st.integers(2, 5))
def test_moves_come_to_an_end(rates: list[float], workers: int) -> None:
    owners = dict.fromkeys(range(len(rates)), 0)

    def loads() -> dict[int, float]:
        owned: dict[int, float] = dict.fromkeys(range(workers), 0.0)
        for number, worker in owners.items():
            owned[worker] += rates[number] / sum(rates)
        return owned

    for _ in range(len(rates) * workers):
        now = loads()
        found = find_imbalance(now, 0.1)
        if found is None:
            break
        traffic = {BUNDLES[n]: rates[n] for n in owners if owners[n] == found.busiest}
        chosen = choose(traffic, (), now[found.busiest], now[found.idlest])
        if chosen is None:
            break
        owners[BUNDLES.index(chosen)] = found.idlest
        assert max(loads().values()) <= max(now.values()) + 1e-9
    else:
        pytest.fail(f"bundles with {rates} move for ever")
