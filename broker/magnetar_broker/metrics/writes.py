"""The metrics of topics' writes: times and sizes of the last window, by bucket.

As in Pulsar each bucket is a gauge of its own, and counts only values above the bound before.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import add, itemgetter

from magnetar_broker.metrics.text import Row, declaration, table
from magnetar_broker.producers.write_counts import LATENCY_BOUNDS_MS

Window = tuple[float, ...]
"""The writes of one window, in the form of `WriteCounts.window`."""
LATENCIES = len(LATENCY_BOUNDS_MS) + 1
SIZES_AT = LATENCIES + 1
SIZE_NAMES = ("128", "512", "1_kb", "2_kb", "4_kb", "16_kb", "100_kb", "1_mb", "overflow")
QUANTILES = (0.0, 0.5, 0.95, 0.99, 0.999, 0.9999, 1.0)


def entries_of(window: Window) -> float:
    """Return the number of entries that were written."""
    return sum(window[:LATENCIES])


def summed(windows: Iterable[Window]) -> Window:
    """Return the sum of windows; () if there are none."""
    total: Window = ()
    for window in windows:
        total = tuple(map(add, total, window)) if total and window else total or window
    return total


def _latency_rows() -> Iterator[Row]:
    text = "Entries of the last window whose write took up to"
    for at, bound in enumerate(LATENCY_BOUNDS_MS):
        name = f"{bound:g}".replace(".", "_")
        yield Row(f"storage_write_latency_le_{name}", f"{text} {bound:g} ms, and more than the "
                  "bound before", itemgetter(at))  # fmt: skip
    yield Row("storage_write_latency_overflow", f"{text} more than all bounds",
              itemgetter(LATENCIES - 1))  # fmt: skip
    yield Row("storage_write_latency_count", "Entries written in the last window", entries_of)
    yield Row("storage_write_latency_sum", "Milliseconds that their writes took, added up",
              itemgetter(LATENCIES))  # fmt: skip


def _size_rows() -> Iterator[Row]:
    for at, name in enumerate(SIZE_NAMES):
        yield Row(f"entry_size_le_{name}", "Entries of the last window of up to this size, and "
                  "larger than the bound before", itemgetter(SIZES_AT + at))  # fmt: skip
    yield Row("entry_size_count", "Entries written in the last window", entries_of)
    yield Row("entry_size_sum", "Their bytes", itemgetter(-1))


def _rate_row(seconds: float) -> Row:
    return Row(
        "storage_write_rate",
        "Entries written per second",
        lambda window: entries_of(window) / seconds if window else 0.0,
    )


ROWS = (*_latency_rows(), *_size_rows())


def of_writes(
    topics: Sequence[tuple[str, Window]], sums: Sequence[tuple[str, Window]], seconds: float
) -> Iterator[bytes]:
    """Yield the metrics of topics that have written in the last window, and of sums of topics."""
    yield from table("pulsar_", (*ROWS, _rate_row(seconds)), topics, sums)


def of_broker(labels: str, window: Window, seconds: float) -> Iterator[bytes]:
    """Yield the metrics of all topics together; `labels` are the broker's labels."""
    yield from table("pulsar_broker_", (_rate_row(seconds),), (), [(labels, window)])
    name = "pulsar_broker_publish_latency"
    text = "Milliseconds from when messages came until they were durable, in the last window"
    lines = [declaration(name, text, "summary")]
    if window:
        for quantile in QUANTILES:
            value = quantile_of(window, quantile)
            lines.append(f'{name}{{{labels},quantile="{quantile}"}} {value}\n')
    lines.append(f"{name}_count{{{labels}}} {entries_of(window)}\n")
    lines.append(f"{name}_sum{{{labels}}} {window[LATENCIES] if window else 0.0}\n")
    yield "".join(lines).encode()


def quantile_of(window: Window, quantile: float) -> float:
    """Return a quantile in milliseconds, interpolated in its bucket; at most the highest bound."""
    rank, below = quantile * entries_of(window), 0.0
    lower = 0.0
    for bound, count in zip(LATENCY_BOUNDS_MS, window, strict=False):
        if count and below + count >= rank:
            return lower + (bound - lower) * max(0.0, rank - below) / count
        below += count
        lower = bound
    return lower
