"""Refusals over HTTP: a status, and JSON `{"reason": "<what is wrong, and what to do>"}`."""

import logging

from magnetar_broker.base.errors import (
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
"""The status of each kind of refusal; 500 for others."""


class Refused(Exception):
    """A refusal with this status; the request changed nothing."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def refusal(status: int, reason: str, **headers: str) -> Response:
    """A response with a reason."""
    return json_response({"reason": reason}, status, headers)


def refusal_of(request: Request, error: Exception) -> Response:
    """The response to a request that failed with this error; a defect is logged, not shown."""
    if isinstance(error, Refused):
        return refusal(error.status, str(error))
    if isinstance(error, NoRoute):
        request_line = f"{request.method} {request.path}"
        if not error.methods:
            return refusal(404, f"{request_line}: there is no such path")
        allowed = ", ".join(sorted(error.methods))
        return refusal(405, f"{request_line}: this path allows {allowed}", Allow=allowed)
    known = as_refusal(error)
    if known is None:
        logger.error("%s %s failed; this is a defect", request.method, request.path, exc_info=error)
        return refusal(500, "internal error, a defect of the broker: its log has the details")
    return refusal(STATUSES.get(type(known), 500), str(known))
