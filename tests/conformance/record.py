"""Records transcripts: `python -m conformance.record original|magnetar [group...]`.

`original` starts an Apache Pulsar, plays every trace, and stops it; one that `original/pulsar.py`
has started on the port is used, and left running.  `magnetar` plays those in which Magnetar
differs.  Look at the change with `git diff` before you commit it.
"""

import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from conformance import transactions
from conformance.groups import all_traces, play, settings_of
from conformance.original.pulsar import VERSION, RunningPulsar
from conformance.trace import Target, warm_up
from conformance.transcript import MAGNETAR, ORIGINAL, Transcripts
from running_broker import RunningBroker

PORT, HTTP_PORT = 16650, 18080
SETTLE_SECONDS = 0.3
SETTINGS = {
    "activeConsumerFailoverDelayTimeMillis": "0",
    "connectionLivenessCheckTimeoutMillis": "1000",
    "forceDeleteNamespaceAllowed": "true",
    "forceDeleteTenantAllowed": "true",
    "backlogQuotaDefaultLimitGB": "10",
    "maxProducersPerTopic": "0",
    "maxConsumersPerTopic": "0",
}
"""For both brokers: what would only make everybody wait, what is not allowed by default, and
defaults that differ."""


@contextmanager
def original(own: Mapping[str, str]) -> Iterator[Target]:
    """An Apache Pulsar with an empty data directory, or the one that runs on the port already.

    `own` are settings of the groups that are played.
    """
    target = Target(PORT, HTTP_PORT, SETTLE_SECONDS)
    with tempfile.TemporaryDirectory() as data:
        pulsar = RunningPulsar(PORT, HTTP_PORT, Path(data), settings={**SETTINGS, **own})
        if pulsar.pid is not None:
            yield target
            return
        with pulsar:
            yield target


@contextmanager
def magnetar(folder: Path, own: Mapping[str, str] | None = None) -> Iterator[Target]:
    """The daemon of this repository; `own` are settings of the groups that are played."""
    own = own or {}
    broker = RunningBroker(folder / "data", **{**SETTINGS, **own})
    try:
        broker.start()
        target = Target(broker.port, broker.http_port, 0)
        prepare(target, own)
        yield target
    finally:
        broker.close()


def prepare(target: Target, own: Mapping[str, str]) -> None:
    """Open topics first, unless that takes credentials; and the coordinator, if there is one."""
    if own.get("authenticationEnabled") != "true":
        warm_up(target)
    if own.get("transactionCoordinatorEnabled") == "true":
        transactions.prepare(target)


def record_original(groups: list[str]) -> None:
    """Play all traces, or those of some groups, and write down what the original answers."""
    head = f"# Apache Pulsar {VERSION}, recorded on {datetime.now(UTC).date()}"
    for own, alike in by_settings(groups):
        with original(own) as target:
            prepare(target, own)
            _record(ORIGINAL, alike, target, head)


def record_magnetar(groups: list[str]) -> None:
    """Play the traces that differ with Magnetar, and write down what it answers."""
    for own, alike in by_settings(groups):
        with tempfile.TemporaryDirectory() as folder, magnetar(Path(folder), own) as target:
            _record(MAGNETAR, alike, target, "# Magnetar, where it differs")


def by_settings(groups: list[str]) -> Iterator[tuple[Mapping[str, str], list[str]]]:
    """The groups, or all if there is none, by the settings that brokers are started with."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for group in groups or dict.fromkeys(one.group for one in all_traces()):
        found.setdefault(tuple(sorted(settings_of(group).items())), []).append(group)
    for own, alike in found.items():
        yield dict(own), alike


def _record(side: str, groups: list[str], target: Target, head: str) -> None:
    for group, named in groupby(all_traces(), lambda one: one.group):
        if group not in groups:
            continue
        transcripts = Transcripts(side, group)
        transcripts.by_trace = {
            one.name: play(one, target)
            for one in named
            if side == ORIGINAL or one.difference is not None
        }
        transcripts.write(head)
        print(f"{side} {group}: {len(transcripts.by_trace)} traces")


def main(arguments: Sequence[str] | None = None) -> None:
    """SystemExit, with the names there are, for a side or a group that is none of them."""
    sides = {ORIGINAL: record_original, MAGNETAR: record_magnetar}
    parser = ArgumentParser(prog="conformance.record")
    parser.add_argument("side", choices=sides)
    parser.add_argument("groups", nargs="*", metavar="group", help="all, if none is named")
    chosen = parser.parse_args(arguments)
    groups = list(dict.fromkeys(one.group for one in all_traces()))
    unknown = [group for group in chosen.groups if group not in groups]
    if unknown:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(groups)}")
    sides[chosen.side](chosen.groups)


if __name__ == "__main__":
    main()
