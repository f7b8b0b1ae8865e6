"""Refusals over HTTP: a status, and JSON `{"reason": "<what is wrong, and what to do>"}`."""

import logging

from magnetar_broker.base.errors import (
    AlreadyExists,
    BrokerError,
    ConsumerBusy,
    ConsumerUnassigned,
    InUse,
    InvalidName,
    InvalidTransactionStatus,
    LimitReached,
    ListenerNotFound,
    MetadataError,
    NamespaceNotFound,
    NoRoom,
    NotAllowed,
    NotAuthenticated,
    NotAuthorized,
    NotEmpty,
    NotReady,
    PersistenceError,
    ProducerBlocked,
    ProducerBusy,
    ProducerFenced,
    QuotaExceeded,
    SchemaInvalid,
    SchemaRefused,
    SubscriptionNotFound,
    TenantNotFound,
    TooManyRequests,
    TopicNotFound,
    TopicTerminated,
    TransactionConflict,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
    UnknownError,
    as_refusal,
)
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import NoRoute

logger = logging.getLogger(__name__)

STATUSES: dict[type[BrokerError], int] = {
    InvalidName: 412,
    TenantNotFound: 404,
    NamespaceNotFound: 404,
    TopicNotFound: 404,
    SubscriptionNotFound: 404,
    ListenerNotFound: 404,
    AlreadyExists: 409,
    NotEmpty: 409,
    ProducerBusy: 409,
    ProducerFenced: 409,
    SchemaRefused: 409,
    TopicTerminated: 409,
    TransactionCoordinatorNotFound: 404,
    TransactionNotFound: 404,
    InvalidTransactionStatus: 409,
    TransactionConflict: 409,
    InUse: 412,
    LimitReached: 412,
    ConsumerBusy: 412,
    ConsumerUnassigned: 412,
    QuotaExceeded: 412,
    ProducerBlocked: 412,
    SchemaInvalid: 422,
    NotAllowed: 405,
    NotAuthenticated: 401,
    NotAuthorized: 403,
    NotReady: 503,
    TooManyRequests: 503,
    PersistenceError: 503,
    NoRoom: 503,
    MetadataError: 503,
    UnknownError: 500,
}
"""The status of each kind of refusal; a kind that is not listed has that of its base class."""


class Refused(Exception):
    """A refusal of a request, with its HTTP status.

    The request changed nothing, unless it makes several changes one after the other: then the
    changes before the refusal are made, and repeating the request continues.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def refusal(status: int, reason: str, **headers: str) -> Response:
    """Return a response with a reason, and these headers."""
    return json_response({"reason": reason}, status, headers)


def refusal_of(request: Request, error: Exception) -> Response:
    """Return the response to a request that failed; a defect is logged, and not shown."""
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
    return refusal(status_of(known), str(known))


def status_of(error: BrokerError) -> int:
    """Return the HTTP status of a refusal."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
