"""Every refusal over HTTP is JSON: `{"reason": "<what to do>"}`."""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from magnetar_broker.errors import (
    BrokerError,
    InvalidName,
    NamespaceMissing,
    NotAllowed,
    NotReady,
    PersistenceTrouble,
    TooManyRequests,
    TopicMissing,
    as_refusal,
)
from magnetar_broker.namespaces import AlreadyExists

logger = logging.getLogger(__name__)

STATUSES: dict[type[BrokerError], int] = {
    InvalidName: 412,
    NamespaceMissing: 404,
    TopicMissing: 404,
    AlreadyExists: 409,
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


def refusal(status: int, reason: str) -> web.Response:
    """An answer that says what went wrong."""
    return web.json_response({"reason": reason}, status=status)


@web.middleware
async def as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what a handler raises."""
    try:
        return await handler(request)
    except Refused as error:
        return refusal(error.status, str(error))
    except web.HTTPException as error:
        answer = refusal(error.status, f"{request.method} {request.path}: {error.reason}")
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    except Exception as error:
        known = as_refusal(error)
        if known is None:
            logger.exception("%s %s failed; this is a defect", request.method, request.path)
            return refusal(500, "the broker met a defect of its own; see its log")
        return refusal(STATUSES.get(type(known), 500), str(known))
