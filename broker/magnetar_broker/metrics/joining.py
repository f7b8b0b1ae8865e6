"""Joins the pages of the processes of one broker into one page.

A page is a sequence of parts of whole lines, as `prometheus.py` makes them.  Samples of topics are
in one page only, because each topic is served by one process; their parts are passed on unread. The
other samples are joined by a rule for each metric (`rule_of`).  NaN is an unknown value; joined
with it, another value is unknown, too, and has no sample.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from math import isnan, nan
from operator import add
from typing import Final

from magnetar_broker.metrics.prometheus import OTHER
from magnetar_broker.metrics.text import SLICE

OF_TOPICS = b',topic="'
"""The text that only samples of topics have: quotes in label values are escaped."""
OF_OTHERS = b'%b%b"' % (OF_TOPICS, OTHER.encode())
"""The text in samples that several processes may have: of topics shown in sums only."""
OWN_PREFIXES = ("process_", "python_")


class Rule(Enum):
    """The rule by which the samples that several processes have of a metric are joined."""

    SUM = "one sample, the sum"
    LARGEST = "one sample, the largest"
    SAME = "one sample: they are the same"
    APART = "a sample of each process, with its name in the label `process`"


RULES: Final[Mapping[str, Rule]] = {
    # All processes are forks of one program.
    "pulsar_version_info": Rule.SAME,
    # The oldest message of a namespace is in one of its topics.
    "pulsar_storage_backlog_age_seconds": Rule.LARGEST,
    "pulsar_subscription_storage_backlog_age_seconds": Rule.LARGEST,
    # These are counters, too, although their names do not have the suffix of counters.
    "pulsar_connection_created_total_count": Rule.APART,
    "pulsar_connection_closed_total_count": Rule.APART,
    "pulsar_connection_create_success_count": Rule.APART,
    "pulsar_connection_create_fail_count": Rule.APART,
    "pulsar_publish_rate_limit_times": Rule.APART,
    "pulsar_ml_cache_evictions": Rule.APART,
    "brk_ledgeroffloader_offload_error": Rule.APART,
    "brk_ledgeroffloader_read_bytes": Rule.APART,
    "brk_ledgeroffloader_read_offload_error": Rule.APART,
    "brk_ledgeroffloader_delete_offload_ops": Rule.APART,
    # Each process has its own limit, and a sum would hide a process that has reached it.
    "magnetar_read_bytes": Rule.APART,
    "magnetar_read_limit_bytes": Rule.APART,
    "magnetar_reads_waiting": Rule.APART,
    "magnetar_publish_pending_bytes": Rule.APART,
    "magnetar_unread_bytes": Rule.APART,
    "magnetar_unread_limit_bytes": Rule.APART,
    # All processes use one disk.
    "magnetar_disk_free_bytes": Rule.SAME,
    "magnetar_disk_size_bytes": Rule.SAME,
    "magnetar_disk_free_limit_bytes": Rule.SAME,
    "magnetar_disk_low": Rule.LARGEST,
    # A process that has not read the new files must show.
    "magnetar_tls_certificate_expiry_timestamp_seconds": Rule.APART,
}


def rule_of(name: str, kind: str) -> Rule:
    """Return the rule for a metric and its type.

    Counters and histograms are not added up: when a process starts again, or its page is missing,
    the sum would fall, which Prometheus takes for a restart of the whole, and counts twice.
    """
    # promise[without or kind in ("counter", "histogram", "summary")]: counters of several processes
    #   are added up
    # promise[without name.startswith(OWN_PREFIXES) or]: what each process has for itself is not
    #   added up
    if name.startswith(OWN_PREFIXES) or kind in ("counter", "histogram", "summary"):
        return Rule.APART
    return RULES.get(name, Rule.SUM)


def join(pages: Mapping[str, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield one page, joined from the pages of processes by their names.

    Each metric is declared once.  Some parts are empty: their work was to prepare others.
    """
    families: dict[bytes, _Family] = {}
    for process, parts in pages.items():
        yield from _read(process, parts, families)
    for family in families.values():
        yield from family.parts()


def _read(
    process: str, parts: Iterable[bytes], families: "dict[bytes, _Family]"
) -> Iterator[bytes]:
    """Add a page to the metrics; yield after every part."""
    label = f',process="{process}"}}'.encode()
    family = _Family()
    for part in parts:
        first = part[: part.find(b"\n")]
        # promise[without and OF_OTHERS not in first]: sums of topics of several processes are
        #   joined
        if OF_TOPICS in first and OF_OTHERS not in first:
            family.passed.append(part)
            yield b""
            continue
        for line in part.split(b"\n"):
            if line.startswith(b"# HELP "):
                family = families.setdefault(line.split(b" ", 3)[2], _Family())
                family.help = line
            elif line.startswith(b"# TYPE "):
                family.declare(line)
            elif line:
                family.add(line, label)
        yield b""


class _Family:
    """All samples of one metric."""

    def __init__(self) -> None:
        self.help = self._type = b""
        self.passed: list[bytes] = []
        """Samples of topics, in parts."""
        self._rule = Rule.SUM
        self._samples: dict[bytes, float] = {}
        """The other samples, by name and labels."""

    def declare(self, line: bytes) -> None:
        """Take the line that declares the type."""
        name, kind = line.decode().split(" ")[2:]
        self._type, self._rule = line, rule_of(name, kind)

    def add(self, line: bytes, label: bytes) -> None:
        """Add a sample of a process, whose label is appended to the others."""
        series, _, text = line.rpartition(b" ")
        value = float(text)
        if self._rule is Rule.APART:
            self._samples[series.removesuffix(b"}") + label] = value
        elif series in self._samples:
            self._samples[series] = _JOINED[self._rule](self._samples[series], value)
        else:
            self._samples[series] = value

    def parts(self) -> Iterator[bytes]:
        """Yield the metric in parts of the page."""
        yield b"%b\n%b\n" % (self.help, self._type)
        yield from self.passed
        left = iter(self._samples.items())
        while some := list(islice(left, SLICE)):
            # promise[without if not isnan(value)]: unknown samples are left out
            yield b"".join(
                b"%b %b\n" % (series, repr(value).encode())
                for series, value in some
                if not isnan(value)
            )


def _larger(one: float, other: float) -> float:
    # promise[without nan if isnan(one) or isnan(other) else]: the largest of unknown values is
    #   unknown
    return nan if isnan(one) or isnan(other) else max(one, other)


_JOINED: Final[Mapping[Rule, Callable[[float, float], float]]] = {
    Rule.SUM: add,
    Rule.LARGEST: _larger,
    Rule.SAME: lambda one, other: one,
}
