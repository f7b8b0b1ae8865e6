"""Prometheus's text format: labels, tables of samples, histograms.

Everything is made in parts of a limited number of samples, so that the event loop can do other work
in between.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

from magnetar_broker.metrics.histogram import Counts

Measured = Sequence[tuple[str, Any]]
"""Objects of one kind, each with its labels as `labels_of` writes them."""
SLICE = 200
"""The number of samples in one part of the page; each takes about 0.3 us."""


class Row(NamedTuple):
    """One metric: its name (a counter's ends in _total), its help, and how to read its value."""

    name: str
    text: str
    value: Callable[[Any], float | None]
    """Returns None if the value is unknown: the sample is left out."""


def labels_of(labels: Mapping[str, str]) -> str:
    """Return labels in the form of a sample, without the braces."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()])


def escaped(value: str) -> str:
    """Return the value of a label in the form that stands between quotes."""
    if "\\" in value:
        value = value.replace("\\", r"\\")
    if "\n" in value:
        value = value.replace("\n", r"\n")
    return value.replace('"', r"\"") if '"' in value else value


def kind_of(name: str) -> str:
    """Return the type of a metric that is not a histogram."""
    return "counter" if name.endswith("_total") else "gauge"


def declaration(name: str, text: str, kind: str) -> str:
    """Return the lines that precede the samples of a metric."""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def table(
    prefix: str,
    rows: Iterable[Row],
    measured: Measured,
    sums: Measured = (),
    with_unknown: bool = False,
) -> Iterator[bytes]:
    """Yield a metric for each row, of all objects, and of sums, which have their own parts.

    With `with_unknown`, unknown values of sums are NaN.
    """
    if not measured and not sums:
        return
    for row in rows:
        name = prefix + row.name
        yield declaration(name, row.text, kind_of(name)).encode()
        yield from _samples(name, row.value, measured)
        yield from _samples(name, row.value, sums, with_unknown)


def _samples(
    name: str, value_of: Callable[[Any], float | None], of: Measured, with_unknown: bool = False
) -> Iterator[bytes]:
    for start in range(0, len(of), SLICE):
        # promise[without or with_unknown]: a sum with an unknown part is unknown
        lines = [
            f"{name}{{{labels}}} {nan if value is None else value}\n"
            for labels, thing in of[start : start + SLICE]
            if (value := value_of(thing)) is not None or with_unknown
        ]
        yield "".join(lines).encode()


def summary(name: str, text: str, measured: Iterable[tuple[str, float, float]]) -> bytes:
    """Return a summary without quantiles: a count and a sum for each of the labels."""
    lines = [declaration(name, text, "summary")]
    for labels, count, total in measured:
        lines.append(f"{name}_count{{{labels}}} {count}\n{name}_sum{{{labels}}} {total}\n")
    return "".join(lines).encode()


def histograms(name: str, text: str, measured: Iterable[tuple[str, Counts]]) -> bytes:
    """Return a histogram with samples for each of the labels."""
    lines = [declaration(name, text, "histogram")]
    for labels, counts in measured:
        for bound, count in counts.buckets:
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {count}\n')
        lines.append(f"{name}_count{{{labels}}} {counts.buckets[-1][1]}\n")
        lines.append(f"{name}_sum{{{labels}}} {counts.sum}\n")
    return "".join(lines).encode()
