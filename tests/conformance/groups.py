"""The traces: every public function of every module in traces/, in the order of the text."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from conformance import traces
from conformance.differences import Difference, difference_of
from conformance.trace import ConnectionIsClosed, Target, Trace

Script = Callable[[Trace], None]


class NamedTrace(NamedTuple):
    """One trace: where it stands, what it does, and why the two brokers differ in it, if so."""

    group: str
    name: str
    script: Script
    difference: Difference | None


def all_traces() -> Iterator[NamedTrace]:
    """Every trace, group by group."""
    for module in sorted(pkgutil.iter_modules(traces.__path__), key=lambda module: module.name):
        yield from traces_of(module.name)


def traces_of(group: str) -> Iterator[NamedTrace]:
    """The traces of one group."""
    module = importlib.import_module(f"{traces.__name__}.{group}")
    for name, script in vars(module).items():
        own = callable(script) and getattr(script, "__module__", "") == module.__name__
        if own and not name.startswith("_"):
            yield NamedTrace(group, name, script, difference_of(script))


def settings_of(group: str) -> Mapping[str, str]:
    """What both brokers are started with for a group, besides what holds for all.

    That is `SETTINGS` of its module, and most have none.
    """
    module = importlib.import_module(f"{traces.__name__}.{group}")
    found: Mapping[str, str] = getattr(module, "SETTINGS", {})
    return found


def play(named: NamedTrace, target: Target) -> str:
    """Run a trace against a broker; its transcript."""
    trace = Trace(target)
    try:
        with suppress(ConnectionIsClosed):
            named.script(trace)
        return trace.ends()
    finally:
        trace.breaks_off()
