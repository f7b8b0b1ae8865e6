"""Histograms of message latencies: of the whole run, and of the present interval."""

import time
from pathlib import Path
from typing import Any

import click

MOST_US = 3_600_000_000
"""The highest latency, an hour in microseconds; longer ones count as this."""
DIGITS = 3
PERCENTILES = (50.0, 75.0, 95.0, 99.0, 99.9, 99.99)
NAMES = {50.0: "p50", 75.0: "p75", 95.0: "p95", 99.0: "p99", 99.9: "p99.9", 99.99: "p99.99"}


class Latencies:
    """Records latencies, for many messages at a time."""

    def __init__(self, log: str | None) -> None:
        """`log` is the path of a histogram log to write, with one line per interval."""
        self._make = _library()
        self._all = self._make(1, MOST_US, DIGITS)
        self._interval = self._make(1, MOST_US, DIGITS)
        self._log = None if log is None else _Log(log)
        self._began_ms = time.time() * 1000

    def record(self, seconds: float, messages: int) -> None:
        """Record the latency of `messages` messages."""
        micros = min(max(int(seconds * 1e6), 1), MOST_US)
        self._interval.record_value(micros, messages)

    def end_interval(self) -> dict[str, float]:
        """Return the figures of the interval, in milliseconds, and start the next one."""
        now_ms = time.time() * 1000
        figures = _figures(self._interval)
        if self._log is not None:
            self._log.write(self._interval, self._began_ms, now_ms)
        self._all.add(self._interval)
        self._interval.reset()
        self._began_ms = now_ms
        return figures

    def close(self) -> dict[str, float]:
        """Return the figures of the whole run, in milliseconds."""
        self.end_interval()
        if self._log is not None:
            self._log.close()
        return _figures(self._all)


class _Log:
    """A histogram log for the tools of HdrHistogram; values are in microseconds."""

    def __init__(self, path: str) -> None:
        from hdrh.log import HistogramLogWriter  # noqa: PLC0415 (optional)

        try:
            self._file = Path(path).open("w", encoding="ascii")  # noqa: SIM115 (until `close`)
        except OSError as error:
            text = f"{path}: {error.strerror}"
            raise click.BadParameter(text, param_hint="--histogram-file") from error
        self._writer = HistogramLogWriter(self._file)
        self._writer.output_comment("[Latencies of magnetar perf, in microseconds]")
        self._writer.output_log_format_version()
        # `output_start_time` of hdrhistogram 0.10 does not work.
        # In whole seconds, rounded down: readers ignore intervals that begin before it.
        self._file.write(f"#[StartTime: {int(time.time())}.0 (seconds since epoch)]\n")
        self._writer.output_legend()

    def write(self, histogram: Any, began_ms: float, ended_ms: float) -> None:
        self._writer.output_interval_histogram(histogram, began_ms / 1000, ended_ms / 1000, 1000)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _library() -> Any:
    try:
        from hdrh.histogram import HdrHistogram  # noqa: PLC0415 (optional)
    except ModuleNotFoundError as error:
        raise click.ClickException(
            "`magnetar perf` needs the package hdrhistogram: pip install 'magnetar[perf]'"
        ) from error
    return HdrHistogram


def _figures(histogram: Any) -> dict[str, float]:
    if not histogram.get_total_count():
        return {}
    found = {"mean": histogram.get_mean_value() / 1000}
    for percentile in PERCENTILES:
        found[NAMES[percentile]] = histogram.get_value_at_percentile(percentile) / 1000
    found["max"] = histogram.get_max_value() / 1000
    return {name: round(value, 3) for name, value in found.items()}
