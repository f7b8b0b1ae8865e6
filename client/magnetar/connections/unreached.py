"""The reasons why a broker cannot be reached, with remedies."""

import asyncio
import errno
import re
import socket
import ssl
from contextlib import suppress
from typing import Final

from magnetar.base.errors import ConnectionLost, MagnetarError, TlsFailed, WrongProtocol
from magnetar.base.settings import Address
from magnetar.security.security import tls_failure
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import PROTOCOL_VERSION, encode
from magnetar_proto.frames import FrameDecoder

ERROR_NUMBER = re.compile(r"\[Errno (\d+)\]")
REASONS: Final = {
    errno.ECONNREFUSED: "connection refused, nothing listens there: start the broker, or correct "
    "the address",
    errno.ECONNRESET: "the connection was closed at once: see the broker's log",
    errno.EHOSTUNREACH: "no route to the host: check the address and the network",
    errno.ENETUNREACH: "no route to its network: check the address and the network",
    errno.ETIMEDOUT: "no answer: check the address, and firewalls on the way",
}
TLS_RECORD = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")
PROBE_BYTES = 4096


class EndedUnheard(ConnectionLost):
    """The peer ended the connection without an answer, before the handshake was complete."""


def failure_of(address: Address, error: OSError) -> MagnetarError:
    """Return the error to raise for an error of the system, of name resolution or of TLS."""
    if (failure := tls_failure(address, error)) is not None:
        return failure
    # For asyncio, a TLS connection is complete when its handshake is.
    ended = address.is_tls and isinstance(error, ConnectionResetError | ssl.SSLEOFError)
    kind = EndedUnheard if ended else ConnectionLost
    return kind(f"cannot connect to {address}: {_reason(error)}")


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        why = str(error.strerror or error).lower()
        return f"the host name is unknown ({why}): correct it, or the name service"
    # For a host with several addresses asyncio puts the errors of all into one text.
    numbers = {error.errno} if error.errno else set(map(int, ERROR_NUMBER.findall(str(error))))
    if len(numbers) == 1 and (reason := REASONS.get(numbers.pop())) is not None:
        return reason
    if isinstance(error, ConnectionResetError | ssl.SSLEOFError):
        return REASONS[errno.ECONNRESET]
    return error.strerror or str(error) or type(error).__name__


def other_protocol(address: Address, answer: bytes) -> MagnetarError:
    """Return the error for an answer other than a frame, by its first bytes."""
    if answer.startswith(b"HTTP/"):
        return WrongProtocol(
            f"{address} speaks HTTP: use the broker's port for clients (brokerServicePort, "
            "6650 unless configured)"
        )
    if not address.is_tls and TLS_RECORD.match(answer):
        return _expects_tls(address)
    return WrongProtocol(
        f"{address} does not speak the Pulsar protocol, its answer begins with {answer[:16]!r}: "
        "correct the address"
    )


def _expects_tls(address: Address) -> TlsFailed:
    return TlsFailed(
        f"{address} expects TLS: use pulsar+ssl://{address}, or the port without TLS "
        "(brokerServicePort)"
    )


async def explained(address: Address, failure: MagnetarError) -> MagnetarError:
    """Find out why a peer ended a connection without an answer; return `failure` if unknown.

    The peer is tried with TLS if the address has none, and without if it has; no secret is
    sent.  The caller sets a timeout.
    """
    try:
        found = await (_without_tls(address) if address.is_tls else _with_tls(address))
    except OSError:
        return failure  # the broker does not run, or closes this connection as well
    return found or failure


async def _with_tls(address: Address) -> MagnetarError | None:
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authority, and reads no files
    try:
        _, writer = await asyncio.open_connection(address.host, address.port, ssl=nobody)
    except ssl.SSLCertVerificationError:
        return _expects_tls(address)
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
    return _expects_tls(address)


async def _without_tls(address: Address) -> MagnetarError | None:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    connect = pb.CommandConnect(client_version="", protocol_version=PROTOCOL_VERSION)
    writer.write(encode(connect))
    try:
        answer = await reader.read(PROBE_BYTES)
    finally:
        writer.transport.abort()
    if not FrameDecoder(PROBE_BYTES).feed(answer):
        return None
    return TlsFailed(
        f"{address} speaks the protocol without TLS: use pulsar://{address}, or the port with TLS "
        "(brokerServicePortTls)"
    )
