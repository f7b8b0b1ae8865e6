"""Refusals over HTTP: a status, and JSON `{"reason": "<what is wrong, and what to do>"}`."""

import logging

from magnetar_broker.base import errors
from magnetar_broker.base.errors import BrokerError, as_refusal
from magnetar_broker.server.http.messages import (
    Redirected,
    Refused,
    Request,
    Response,
    json_response,
)
from magnetar_broker.server.http.table import NoRoute

logger = logging.getLogger(__name__)

STATUSES: dict[type[BrokerError], int] = {
    errors.InvalidName: 412,
    errors.TenantNotFound: 404,
    errors.NamespaceNotFound: 404,
    errors.TopicNotFound: 404,
    errors.SubscriptionNotFound: 404,
    errors.ListenerNotFound: 404,
    errors.AlreadyExists: 409,
    errors.NotEmpty: 409,
    errors.ProducerBusy: 409,
    errors.ProducerFenced: 409,
    errors.SchemaRefused: 409,
    errors.TopicTerminated: 409,
    errors.TransactionCoordinatorNotFound: 404,
    errors.TransactionNotFound: 404,
    errors.InvalidTransactionStatus: 409,
    errors.TransactionConflict: 409,
    errors.InUse: 412,
    errors.LimitReached: 412,
    errors.ConsumerBusy: 412,
    errors.ConsumerUnassigned: 412,
    errors.QuotaExceeded: 412,
    errors.ProducerBlocked: 412,
    errors.SchemaInvalid: 422,
    errors.NotAllowed: 405,
    errors.NotAuthenticated: 401,
    errors.NotAuthorized: 403,
    errors.NotReady: 503,
    errors.TooManyRequests: 503,
    errors.PersistenceError: 503,
    errors.NoRoom: 503,
    errors.MetadataError: 503,
    errors.UnknownError: 500,
}
"""The status of each kind of refusal; a kind that is not listed has that of its base class."""


def refusal(status: int, reason: str, **headers: str) -> Response:
    """Return a response that gives the reason of a refusal."""
    return json_response({"reason": reason}, status, headers)


def refusal_of(request: Request, error: Exception) -> Response:
    """Return the response to a request that failed; a defect is logged, and not shown."""
    if isinstance(error, Redirected):
        return refusal(error.status, str(error), Location=error.location)
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
