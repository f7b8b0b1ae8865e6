"""`python -m conformance.compare [group | group.trace]...`: where Magnetar is not as recorded.

Prints a diff of each trace that differs, from what was recorded to what Magnetar answers now; ends
with 1 if there is one.
"""

import difflib
import sys
import tempfile
from pathlib import Path

from conformance.groups import NamedTrace, all_traces, play
from conformance.record import by_settings, magnetar
from conformance.trace import Target
from conformance.transcript import MAGNETAR, ORIGINAL, Transcripts

PATIENCE_SECONDS = 5.0


def _played(trace: NamedTrace, target: Target) -> str:
    """The transcript; as far as it goes, if something that is waited for does not come."""
    try:
        return play(trace, target)
    except AssertionError as missing:
        return str(missing).partition("\n")[2] + "\n(nothing more)"


def _difference(trace: NamedTrace, played: str) -> list[str]:
    side = ORIGINAL if trace.difference is None else MAGNETAR
    recorded = Transcripts(side, trace.group).by_trace.get(trace.name, "")
    return list(difflib.unified_diff(recorded.splitlines(), played.splitlines(), lineterm="", n=9))


def main(*names: str) -> int:
    """How many traces differ."""
    wanted = [
        trace
        for trace in all_traces()
        if not names or {trace.group, f"{trace.group}.{trace.name}"} & set(names)
    ]
    different = 0
    groups = list(dict.fromkeys(trace.group for trace in wanted))
    for own, alike in by_settings(groups):
        with tempfile.TemporaryDirectory() as folder, magnetar(Path(folder), own) as running:
            target = running._replace(patience_seconds=PATIENCE_SECONDS)
            for trace in (one for one in wanted if one.group in alike):
                difference = _difference(trace, _played(trace, target))
                if difference:
                    different += 1
                    print(f"== {trace.group}.{trace.name}", *difference[2:], "", sep="\n")
    print(f"{different} of {len(wanted)} differ")
    return different


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
