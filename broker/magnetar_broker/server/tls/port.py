"""A TLS port: accepts connections, and gives each to a protocol when its handshake is complete."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from magnetar_broker.limits.admission import Admission
from magnetar_broker.server.accepting import Accepting
from magnetar_broker.server.descriptors import Descriptors
from magnetar_broker.server.stretches import Stretches
from magnetar_broker.server.tls.contexts import Contexts

HANDSHAKE_SECONDS = 10.0
"""How long a client may take for its handshake where there is no `Admission`."""
NO_LIMIT_SECONDS = 86_400.0
"""asyncio needs some limit."""
SHUTDOWN_SECONDS = 5.0
"""How long a client may take to read the rest, and to end TLS from its side."""
REASONS: Final = {
    **dict.fromkeys(
        ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "WRONG_SSL_VERSION"),
        "it speaks no TLS; the URL for this port begins with pulsar+ssl:// or https://",
    ),
    **dict.fromkeys(
        (
            "TLSV1_ALERT_UNKNOWN_CA",
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        ),
        "it does not accept the certificate of this broker: check its trusted certificates, and "
        "when the certificate in tlsCertificateFilePath expires",
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "it showed no certificate (tlsRequireTrustedClientCertOnConnect)"
    ),
}
"""What OpenSSL reports, for people."""


class TlsPort:
    """Call `start` once and `stop` once."""

    def __init__(
        self,
        listening: socket.socket,
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.BaseProtocol],
        contexts: Contexts,
        descriptors: Descriptors,
        stretches: Stretches,
    ) -> None:
        """`listening` is bound; `make` makes the protocol of a connection, `context` its TLS."""
        self._accepting = Accepting(listening, self._take, descriptors, stretches)
        self._context = context
        self._make = make
        self._contexts = contexts
        self._measured = stretches.measured
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._admission: Admission | None = None

    def start(self, admission: Admission | None = None) -> None:
        """Accept clients, which do their handshakes within these limits."""
        self._admission = admission
        self._accepting.start()

    def stop(self) -> None:
        """Accept no more, and end handshakes; connections stay."""
        self._accepting.stop()
        for handshake in self._handshakes:
            handshake.cancel()

    def _take(self, client: socket.socket, host: str) -> None:
        address = _address_of(client, host)
        task = self._loop.create_task(self._measured("read", self._shake_hands(client, address)))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        if self._admission is not None:
            place = self._admission.enter(host, partial(_cancel, task))
            task.add_done_callback(lambda _: place.leave())

    async def _shake_hands(self, client: socket.socket, address: str) -> None:
        seconds = HANDSHAKE_SECONDS if self._admission is None else NO_LIMIT_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                client,
                ssl=self._context(),
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError as error:
            client.close()
            self._contexts.failed(address, reason_of(error))
        except asyncio.CancelledError:
            client.close()
            raise


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def certificate_of(transport: asyncio.BaseTransport) -> bytes:
    """The client's certificate, which was verified, as DER; empty if it showed none."""
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return b"" if connection is None else connection.getpeercert(binary_form=True) or b""


def reason_of(error: OSError) -> str:
    """Why a handshake failed, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return REASONS.get(error.reason) or error.reason.replace("_", " ").lower()
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return "it did not complete its handshake"
    return str(error) or type(error).__name__


def _address_of(client: socket.socket, host: str) -> str:
    try:
        return f"{host}:{client.getpeername()[1]}"
    except OSError:  # it has left already
        return host
