"""Every refusal over HTTP is JSON: `{"reason": "<what to do>"}`."""

import logging

from magnetar_broker.errors import (
    AlreadyExists,
    BrokerError,
    InUse,
    InvalidName,
    LimitReached,
    NamespaceMissing,
    NotAllowed,
    NotEmpty,
    NotReady,
    PersistenceTrouble,
    SubscriptionMissing,
    TenantMissing,
    TooManyRequests,
    TopicMissing,
    as_refusal,
)
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import NoRoute

logger = logging.getLogger(__name__)

STATUSES: dict[type[BrokerError], int] = {
    InvalidName: 412,
    TenantMissing: 404,
    NamespaceMissing: 404,
    TopicMissing: 404,
    SubscriptionMissing: 404,
    AlreadyExists: 409,
    NotEmpty: 409,
    InUse: 412,
    LimitReached: 412,
    NotAllowed: 405,
    NotReady: 503,
    TooManyRequests: 503,
    PersistenceTrouble: 503,
}
"""Any other refusal is 500."""


class Refused(Exception):
    """A refusal with a status of its own; nothing changed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def refusal(status: int, reason: str, **headers: str) -> Response:
    """An answer that says what went wrong."""
    return json_response({"reason": reason}, status, headers)


def refusal_of(request: Request, error: Exception) -> Response:
    """The answer to a request that ended with this error."""
    if isinstance(error, Refused):
        return refusal(error.status, str(error))
    if isinstance(error, NoRoute):
        asked = f"{request.method} {request.path}"
        if not error.methods:
            return refusal(404, f"{asked}: nothing answers on this path")
        allowed = ", ".join(sorted(error.methods))
        return refusal(405, f"{asked}: this path answers {allowed}", Allow=allowed)
    known = as_refusal(error)
    if known is None:
        logger.error("%s %s failed; this is a defect", request.method, request.path, exc_info=error)
        return refusal(500, "the broker met a defect of its own; see its log")
    return refusal(STATUSES.get(type(known), 500), str(known))
