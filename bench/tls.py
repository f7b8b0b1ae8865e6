"""Benchmark of TLS: publishing over it and without."""

import socket
import ssl
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from bench.connection import Connection, connected_as
from bench.dialect import PulsarDialect
from bench.frames import Shape
from bench.scenarios import Trial, publish
from bench.servers import Magnetar
from bench.usage import Measures, cpu_ratio
from magnetar.setup.cert_files import AUTHORITY, SERVER, CertFiles

DAYS = 1


class TlsDialect(PulsarDialect):
    """As without TLS, at another port."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context

    def connected(self, port: int) -> AbstractAsyncContextManager[Connection]:
        return connected_as(Connection, self._port, None, self._context)


def publish_over_tls(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish over TLS, between two runs without: how rate and CPU compare."""
    server = trial.server
    assert isinstance(server, Magnetar)
    files = CertFiles(Path(f"{server.data_dir}-certs"))
    if not files.has_authority:
        files.create((), DAYS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    server.configure(
        {
            "brokerServicePortTls": str(port),
            "tlsCertificateFilePath": str(files.cert(SERVER)),
            "tlsKeyFilePath": str(files.key(SERVER)),
        }
    )
    server.restart()
    before = publish(replace(trial, topic=f"{trial.topic}-before"), shape, entries)
    context = ssl.create_default_context(cafile=str(files.cert(AUTHORITY)))
    plain, server.dialect = server.dialect, TlsDialect(port, context)
    try:
        measures = publish(trial, shape, entries)
    finally:
        server.dialect = plain
    after = publish(replace(trial, topic=f"{trial.topic}-after"), shape, entries)
    rate, cpu = ((before[name] + after[name]) / 2 for name in ("msg_per_s", "cpu_us"))
    return measures | {
        "of_plain": measures["msg_per_s"] / rate,
        "cpu_of_plain": cpu_ratio(measures["cpu_us"], cpu),
    }
