"""Every trace against the real daemon: it must answer what the original answered."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from conformance.groups import NamedTrace, all_traces, play, settings_of
from conformance.record import magnetar
from conformance.trace import Target
from conformance.transcript import MAGNETAR, ORIGINAL, TRANSCRIPTS, Transcripts
from running_broker import RunningBroker

TRACES = list(all_traces())
OF_ONE_WORKER = {"brokers.brokers", "seeks.to_a_ledger_that_never_was"}
"""Each worker is a broker in lists of them.  The ledger is higher than the topic's, but several
workers have higher ones."""
OF_COORDINATORS = {"transactions", "transaction_acks", "rest_transactions"}
"""Groups that need coordinator 0 on the connection of the trace, which leads to one worker; clients
look up which one has it."""
DIFFERENT = [trace for trace in TRACES if trace.difference is not None]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Target]]:
    """One daemon for all groups with the same settings; each trace has a topic of its own."""
    running: dict[tuple[tuple[str, str], ...], Target] = {}
    with ExitStack() as stack:

        def target_of(group: str) -> Target:
            own = settings_of(group)
            settings = tuple(sorted(own.items()))
            if settings not in running:
                folder = tmp_path_factory.mktemp("conformance")
                running[settings] = stack.enter_context(magnetar(folder, own))
            return running[settings]

        yield target_of


def _recorded(trace: NamedTrace, side: str) -> str:
    recorded = Transcripts(side, trace.group).by_trace
    assert trace.name in recorded, f"run `make record-conformance SIDE={side}`"
    return recorded[trace.name]


def _label(trace: NamedTrace) -> str:
    return f"{trace.group}.{trace.name}"


@pytest.mark.parametrize("trace", TRACES, ids=_label)
def test_magnetar_answers_as_recorded(trace: NamedTrace, targets: Callable[[str], Target]) -> None:
    if RunningBroker.workers > 1 and (
        _label(trace) in OF_ONE_WORKER or trace.group in OF_COORDINATORS
    ):
        pytest.skip("of a broker that has, and always had, one worker")
    side = ORIGINAL if trace.difference is None else MAGNETAR
    assert play(trace, targets(trace.group)).splitlines() == _recorded(trace, side).splitlines()


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
