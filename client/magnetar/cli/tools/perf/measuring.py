"""The measurements of a run, shown in intervals and summed up at its end."""

import asyncio
import json
import time
from typing import Any

import click

from magnetar.cli.tools.perf.latencies import Latencies


class Measuring:
    """Counts messages and their latencies; prints a line for each interval."""

    def __init__(
        self, verb: str, header: dict[str, Any], interval_s: float, histograms: str | None
    ) -> None:
        """`verb` is the operation on messages, as in "produced"."""
        self._verb = verb
        self._header = header
        self._interval_s = interval_s
        self._latencies = Latencies(histograms)
        self.messages = self.bytes = self.errors = 0
        self.first_error = ""
        self.pending = 0
        """The number of sent messages without receipt."""
        self._began_s = self._interval_began_s = time.perf_counter()
        self._before = (0, 0)

    def begin(self) -> None:
        """Start the time: all producers or consumers are open."""
        described = ", ".join(f"{name} {value}" for name, value in self._header.items())
        click.echo(described, err=True)
        self._began_s = self._interval_began_s = time.perf_counter()

    def done(self, messages: int, size: int, seconds: float) -> None:
        """Count completed messages of `size` bytes in total, with their latency."""
        self.messages += messages
        self.bytes += size
        self._latencies.record(seconds, messages)

    def failed(self, messages: int, error: BaseException) -> None:
        """Count failed messages."""
        self.errors += messages
        self.first_error = self.first_error or str(error)

    async def show(self) -> None:
        """Print a line after each interval, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_began_s + self._interval_s - time.perf_counter())
            self._show_interval()

    def _show_interval(self) -> None:
        now_s = time.perf_counter()
        elapsed_s = now_s - self._interval_began_s
        messages, size = self.messages - self._before[0], self.bytes - self._before[1]
        self._interval_began_s, self._before = now_s, (self.messages, self.bytes)
        figures = self._latencies.end_interval()
        click.echo(
            f"{self._verb} {self.messages}: {_rates(messages, size, elapsed_s)}{_text(figures)}"
            f"{f', {self.pending} pending' if self.pending else ''}"
            f"{f', {self.errors} failed' if self.errors else ''}",
            err=True,
        )

    def end(self) -> None:
        """Print the summary: as text, and as JSON on standard output."""
        elapsed_s = max(time.perf_counter() - self._began_s, 1e-9)
        figures = self._latencies.close()
        click.echo(
            f"in all {self.messages} {self._verb} in {elapsed_s:.1f} s: "
            f"{_rates(self.messages, self.bytes, elapsed_s)}{_text(figures)}, {self.errors} failed",
            err=True,
        )
        summary = {
            **self._header,
            "messages": self.messages,
            "bytes": self.bytes,
            "failed": self.errors,
            "seconds": round(elapsed_s, 3),
            "messages_per_second": round(self.messages / elapsed_s, 1),
            "bytes_per_second": round(self.bytes / elapsed_s, 1),
            "latency_ms": figures,
        }
        click.echo(json.dumps(summary))


def _rates(messages: int, size: int, seconds: float) -> str:
    return f"{messages / seconds:.1f} msg/s, {size / seconds / 1e6:.2f} MB/s"


def _text(figures: dict[str, float]) -> str:
    if not figures:
        return ""
    return ", latency ms " + " ".join(f"{name} {value:.2f}" for name, value in figures.items())
