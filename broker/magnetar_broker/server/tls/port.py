"""A TLS port: accepts connections, and gives each to a protocol when its handshake is complete."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from magnetar_broker.limits.admission import Admission, AdmittedConnection
from magnetar_broker.server.runtime.accepting import Accepting
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.tls.contexts import Contexts

NO_LIMIT_SECONDS = 86_400.0
"""A limit of a handshake that asyncio requires; `Admission` has the effective one."""
SHUTDOWN_SECONDS = 5.0
"""The seconds in which a client may read the rest and end TLS."""
END_SECONDS = 1.0
"""The time that the stop of a process waits for TLS to end: for clients, for other workers."""
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
"""The texts for people, by OpenSSL's reasons."""


class TlsPort:
    """Accepts clients with TLS from one listening socket.  Call `start` once and `stop` once."""

    def __init__(
        self,
        listening: socket.socket,
        context: Callable[[], ssl.SSLContext],
        make: Callable[[AdmittedConnection], asyncio.BaseProtocol],
        contexts: Contexts,
        descriptors: Descriptors,
        loop_timer: LoopTimer,
    ) -> None:
        """`listening` is bound; `make` makes a connection's protocol, `context` its TLS context.

        The protocol takes the place over if the client must be accepted within the same time limit;
        otherwise the place is free once the handshake is complete.
        """
        self._accepting = Accepting(listening, self._take, descriptors, loop_timer)
        self._context = context
        self._make = make
        self._contexts = contexts
        self._measured = loop_timer.measured
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._admission: Admission

    def start(self, admission: Admission) -> None:
        """Accept clients, which do their handshakes within the limits of `admission`."""
        self._admission = admission
        self._accepting.start()

    def stop(self) -> None:
        """Stop accepting, and end handshakes; open connections stay."""
        self._accepting.stop()
        for handshake in self._handshakes:
            handshake.cancel()

    def _take(self, client: socket.socket, host: str) -> None:
        address = _address_of(client, host)
        place = self._admission.enter(host, lambda: _cancel(task))
        work = self._shake_hands(client, address, place)
        task = self._loop.create_task(self._measured("read", work))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        task.add_done_callback(lambda _: None if place.is_taken_over else place.leave())

    async def _shake_hands(
        self, client: socket.socket, address: str, place: AdmittedConnection
    ) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make(place),
                client,
                ssl=self._context(),
                ssl_handshake_timeout=NO_LIMIT_SECONDS,
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
    """Return the client's certificate, which was verified, as DER; empty if it showed none."""
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return b"" if connection is None else connection.getpeercert(binary_form=True) or b""


def reason_of(error: OSError) -> str:
    """Return why a handshake failed, for people."""
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
    except OSError:  # the client has already left
        return host
