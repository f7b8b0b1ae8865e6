"""Every trace against the real daemon: it must answer what the original answered."""

from collections.abc import Iterator

import pytest

from conformance.groups import NamedTrace, all_traces, play
from conformance.record import magnetar
from conformance.trace import Target
from conformance.transcript import MAGNETAR, ORIGINAL, TRANSCRIPTS, Transcripts
from running_broker import RunningBroker

TRACES = list(all_traces())
OF_ONE_WORKER = {"brokers.brokers", "seeks.to_a_ledger_that_never_was"}
"""Each worker is a broker in lists of them.  The ledger is higher than the topic's, but several
workers have higher ones."""
DIFFERENT = [trace for trace in TRACES if trace.difference is not None]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One daemon for all traces; each has a topic of its own."""
    with magnetar(tmp_path_factory.mktemp("conformance")) as running:
        yield running


def _recorded(trace: NamedTrace, side: str) -> str:
    recorded = Transcripts(side, trace.group).by_trace
    assert trace.name in recorded, f"run `make record-conformance SIDE={side}`"
    return recorded[trace.name]


def _label(trace: NamedTrace) -> str:
    return f"{trace.group}.{trace.name}"


@pytest.mark.daemon
@pytest.mark.parametrize("trace", TRACES, ids=_label)
def test_magnetar_answers_as_recorded(trace: NamedTrace, target: Target) -> None:
    if RunningBroker.workers > 1 and _label(trace) in OF_ONE_WORKER:
        pytest.skip("of a broker that has, and always had, one worker")
    side = ORIGINAL if trace.difference is None else MAGNETAR
    assert play(trace, target).splitlines() == _recorded(trace, side).splitlines()


@pytest.mark.parametrize("trace", DIFFERENT, ids=_label)
def test_a_difference_is_one(trace: NamedTrace) -> None:
    assert _recorded(trace, ORIGINAL) != _recorded(trace, MAGNETAR)


@pytest.mark.parametrize("side", [ORIGINAL, MAGNETAR])
def test_nothing_is_recorded_but_the_traces(side: str) -> None:
    played = TRACES if side == ORIGINAL else DIFFERENT
    files = (TRANSCRIPTS / side).glob("*.txt")
    recorded = {
        (path.stem, name) for path in files for name in Transcripts(side, path.stem).by_trace
    }
    assert recorded == {(trace.group, trace.name) for trace in played}
