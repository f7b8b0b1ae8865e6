"""The refusals of etcd's gateway, as errors of storage."""

import json
from typing import Any, Final

from magnetar_storage.errors import AccessDenied, DiskFull, StorageError, TooLarge, Unavailable

DEADLINE, NOT_FOUND, DENIED, EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED = 4, 5, 7, 8, 14, 16
"""The codes of gRPC that mean something here."""
TURNING_AWAY: Final = frozenset({DEADLINE, UNAVAILABLE})
"""The codes of a server that another one of the cluster may do better than."""
WRONG_CREDENTIALS: Final = ("authentication failed", "user name is empty", "invalid auth")


class GatewayError(Exception):
    """Raised for an answer that is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotEtcd(Exception):
    """Raised for an answer that etcd's gateway does not give."""


def decoded(body: bytes) -> dict[str, Any]:
    """Return the object of an answer; `NotEtcd` if it is not JSON."""
    try:
        answer = json.loads(body)
    except ValueError:
        raise NotEtcd from None
    if not isinstance(answer, dict):
        raise NotEtcd
    return answer


def error_in(answer: dict[str, Any]) -> GatewayError:
    """Return the error that an answer has; `NotEtcd` if it has none."""
    found = answer.get("error", answer)
    if not isinstance(found, dict):
        found = answer  # etcd 3.4: the error is a text beside its code
    code, message = found.get("code", found.get("grpc_code")), found.get("message")
    if not isinstance(code, int) or not isinstance(message, str):
        raise NotEtcd
    return GatewayError(code, message)


def explained(error: GatewayError, what: str) -> StorageError:
    """Return the error of storage; `what` is the beginning of its sentence."""
    message = str(error).removeprefix("etcdserver: ")
    if "too large" in message or "larger than max" in message:
        return TooLarge(
            f"{what}: {message}: etcd was started with a smaller --max-request-bytes than it needs"
        )
    if error.code == EXHAUSTED:
        return DiskFull(f"{what}: {message}: compact and defragment it, or raise its quota")
    if error.code in (DENIED, UNAUTHENTICATED) or message.startswith(WRONG_CREDENTIALS):
        return AccessDenied(f"{what}: {message}: check the user, its password and its roles")
    if "tls: " in message:
        message += (
            " (with --client-cert-auth, the certificate of etcd must be valid for clients, too;"
            " otherwise start etcd with --client-cert-file and --client-key-file)"
        )
    return Unavailable(f"{what}: {message}")
