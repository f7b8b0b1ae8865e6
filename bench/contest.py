"""Runs every row on every server in turn, for a number of rounds."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.connection import LoadError
from bench.lineup import SERVERS, speaks_pulsar
from bench.rows import FLOOR, Row
from bench.scenarios import BACKLOG_GB, Trial
from bench.servers import Magnetar, Server
from bench.usage import Measures

TOPIC = "persistent://public/default/bench"
STORED_LIMIT = 6 << 30
"""A server that lasts gets an empty disk when it has filled so many bytes."""


def takes_part(row: Row, name: str) -> bool:
    """Whether a server can do what is measured."""
    if row.ours:
        return issubclass(SERVERS[name], Magnetar) or name in row.also
    if not speaks_pulsar(name):
        return row.everywhere
    return not (row.brokers and name == FLOOR)


class Contest:
    """Use as a context manager, which stops what was started.

    A server that starts quickly is started for each measurement; another one lasts, stands still
    while it is not its turn, and does every row once more, in its first round, to get warm.
    """

    def __init__(
        self,
        names: list[str],
        directory: Path,
        scale: float,
        seconds: float,
        backlog_gb: float = BACKLOG_GB,
    ) -> None:
        self.names = names
        self._directory = directory
        self._scale = scale
        self._seconds = seconds
        self._backlog_gb = backlog_gb
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
        """Row, server and what was measured, in turn; or why it could not be."""
        for key, row in rows.items():
            for number in range(rounds):
                for name in self.names:
                    if not takes_part(row, name):
                        continue
                    report(f"{row.title}: round {number + 1} of {rounds}, {name}")
                    try:
                        yield key, name, self._measure(key, row, name)
                    except (LoadError, RuntimeError, TimeoutError) as error:
                        reason = f"{type(error).__name__}: {error}"
                        report(f"FAILED: {reason}")
                        yield key, name, reason

    def _measure(self, key: str, row: Row, name: str) -> Measures:
        if row.fresh or SERVERS[name].quick:
            with self._fresh(name, row.settings) as server:
                return row.measure(self._trial(server))
        with self._lasting_server(name) as server:
            if (key, name) not in self._warmed:
                self._warmed.add((key, name))
                row.measure(self._trial(server))
            return row.measure(self._trial(server))

    def _trial(self, server: Server) -> Trial:
        self._trials += 1
        topic = f"{TOPIC}-{self._trials}"
        return Trial(server, topic, self._scale, self._seconds, backlog_gb=self._backlog_gb)

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
