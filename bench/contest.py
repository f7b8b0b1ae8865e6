"""Runs every row on every server in turn, for a number of rounds."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.connection import LoadError
from bench.profile import ProfilingMeter
from bench.rows import Row
from bench.scenarios import Trial
from bench.servers import SERVERS, ChildServer, Server
from bench.usage import Measures, Meter

TOPIC = "persistent://public/default/bench"
STORED_LIMIT = 6 << 30
"""A lasting server gets an empty disk when it has stored more bytes than this."""


class Contest:
    """Runs the rows; use it as a context manager, which stops the servers that it has started.

    A server that starts quickly is started for each measurement.  Another one lasts, is suspended
    while it is not its turn, and runs every row once more, before the first round, to warm up.
    """

    def __init__(
        self,
        names: list[str],
        directory: Path,
        scale: float,
        seconds: float,
        profiles: Path | None = None,
    ) -> None:
        self.names = names
        self._directory = directory
        self._scale = scale
        self._seconds = seconds
        self._profiles = profiles
        self._lasting: dict[str, Server] = {}
        self._warmed: set[tuple[str, str]] = set()
        self._stack = ExitStack()
        self._trials = 0

    def __enter__(self) -> "Contest":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._lasting.values():
            server.go_on()
        self._stack.close()

    def run(
        self, rows: dict[str, Row], rounds: int, report: Callable[[str], None]
    ) -> Iterator[tuple[str, str, Measures | str]]:
        """Yield row, server and measures, in turn; the reason if a measurement failed."""
        for key, row in rows.items():
            for number in range(rounds):
                for name in filter(row.is_for, self.names):
                    report(f"{key}: round {number + 1} of {rounds}, {name}")
                    try:
                        yield key, name, self._measure(key, row, name)
                    except (LoadError, OSError, RuntimeError) as error:
                        reason = f"{type(error).__name__}: {error}"
                        report(f"FAILED: {reason}")
                        yield key, name, reason

    def _measure(self, key: str, row: Row, name: str) -> Measures:
        if row.fresh or row.settings or SERVERS[name].quick:
            with self._fresh(name, row.settings) as server:
                return row.measure(self._trial(server, key, name))
        with self._lasting_server(name) as server:
            if (key, name) not in self._warmed:
                self._warmed.add((key, name))
                row.measure(self._trial(server, key, name))
            return row.measure(self._trial(server, key, name))

    def _trial(self, server: Server, key: str, name: str) -> Trial:
        self._trials += 1
        meter: Callable[[int], Meter] = Meter
        if self._profiles is not None and isinstance(server, ChildServer):
            meter = partial(ProfilingMeter, folder=self._profiles, name=f"{key}-{name}")
        return Trial(server, f"{TOPIC}-{self._trials}", self._scale, self._seconds, meter)

    @contextmanager
    def _fresh(self, name: str, settings: Mapping[str, str]) -> Iterator[Server]:
        directory = self._directory / f"{name}-{self._trials}"
        server = SERVERS[name](directory)
        if settings:
            server.configure(settings)
        try:
            with server:
                yield server
        finally:
            shutil.rmtree(directory)

    @contextmanager
    def _lasting_server(self, name: str) -> Iterator[Server]:
        server = self._lasting.get(name)
        if server is None:
            server = self._stack.enter_context(SERVERS[name](self._directory / name))
            self._lasting[name] = server
        else:
            server.go_on()
            if server.stored_bytes() > STORED_LIMIT:
                server.renew()
        try:
            yield server
        finally:
            server.stand_still()
