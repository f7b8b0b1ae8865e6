"""Snapshots of the data directory: making, watching and listing them."""

import re

from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.data_directory.snapshots.making import Snapshots
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response

NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,99}", re.ASCII)
UNFINISHED = re.compile(r".*\.unfinished", re.ASCII)


async def make(context: AdminContext, request: Request) -> Response:
    """Begin to make a snapshot, and answer 202 with its state, which must then be polled."""
    serving(context)
    return json_response(_snapshots(context).begin(_name_of(request)), 202)


async def state(context: AdminContext, request: Request) -> Response:
    """Return the state of a snapshot: RUNNING, SUCCESS, or ERROR with the reason."""
    name = _name_of(request)
    found = await _snapshots(context).state(name)
    if found is None:
        raise Refused(404, f"there is no snapshot {name}")
    return json_response(found)


async def snapshots(context: AdminContext, request: Request) -> Response:
    """Return the complete snapshots."""
    return json_response(await _snapshots(context).complete())


def _snapshots(context: AdminContext) -> Snapshots:
    if context.snapshots is None:
        raise Refused(
            501, "this broker makes no snapshots: back its data up with the tools of its storage"
        )
    return context.snapshots


def _name_of(request: Request) -> str:
    name = request.part("snapshot")
    if not NAME.fullmatch(name) or UNFINISHED.fullmatch(name):
        raise Refused(
            412,
            f"{name!r} cannot be the name of a snapshot: use up to 100 letters, digits and -_., "
            "the first one a letter or digit",
        )
    return name
