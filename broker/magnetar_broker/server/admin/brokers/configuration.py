"""The settings of the broker: their values and sources, and changing them at run time."""

import logging
from typing import Any

from magnetar_broker.config import ConfigError, Settings
from magnetar_broker.config.changes import DYNAMIC, names_of_dynamic, without_effect
from magnetar_broker.config.settings import KEYS
from magnetar_broker.config.values import Key, render
from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.admin.policies.policy_handlers import without_effect as warning
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response

logger = logging.getLogger(__name__)


async def dynamic(context: AdminContext, request: Request) -> Response:
    """Return the names of all settings that can be changed, with or without effect here."""
    return json_response(names_of_dynamic())


async def changed(context: AdminContext, request: Request) -> Response:
    """Return the settings that were changed, with their values as text."""
    return json_response(serving(context).dynamic.values)


async def effective(context: AdminContext, request: Request) -> Response:
    """Return all settings with their values in effect, as text."""
    settings = serving(context).settings
    return json_response(
        {key.name: key.shown(render(getattr(settings, field))) for field, key in KEYS.items()}
    )


async def explained(context: AdminContext, request: Request) -> Response:
    """Return all settings with their values in effect, their defaults, and where they were set."""
    settings = serving(context).settings
    found = {key.name: _explained(settings, field, key) for field, key in KEYS.items()}
    return json_response(found)


def _explained(settings: Settings, field: str, key: Key) -> dict[str, Any]:
    source = settings.origins.get(field, "default")
    return {
        "value": key.shown(render(getattr(settings, field))),
        "default": render(getattr(Settings, field)),
        "origin": _origin(source),
        "source": source,
        "dynamic": key.dynamic,
    }


def _origin(source: str) -> str:
    """Return the kind of a source: `file`, `environment`, or the source itself."""
    if source in ("default", DYNAMIC, "command line"):
        return source
    return "environment" if source.startswith("environment variable ") else "file"


async def change(context: AdminContext, request: Request) -> Response:
    """Change a setting; answered when it is stored and all processes use it.

    A setting of Pulsar's that has no effect here is stored with a `Warning`.
    """
    name, value = request.part("name"), request.part("value")
    try:
        await serving(context).dynamic.set(name, value.strip())
    except ConfigError as error:
        raise Refused(412, str(error)) from error
    why = without_effect(name, value.strip())
    return Response(headers={} if why is None else {"Warning": warning(name, why)})


async def restore(context: AdminContext, request: Request) -> Response:
    """Restore a setting to the value that the broker was started with."""
    name = request.part("name")
    try:
        await serving(context).dynamic.delete(name)
    except ConfigError as error:
        raise Refused(412, str(error)) from error
    return Response()


async def internal(context: AdminContext, request: Request) -> Response:
    """Return the location of the metadata: the data directory, which only this broker can use."""
    serving(context)
    store = context.metadata_url
    return json_response(
        {
            "zookeeperServers": store,
            "configurationStoreServers": store,
            "metadataStoreUrl": store,
            "configurationMetadataStoreUrl": store,
            "ledgersRootPath": "",
        }
    )


async def shutdown(context: AdminContext, request: Request) -> None:
    """Begin the graceful stop of the whole broker, as SIGTERM does."""
    logger.info("a request over HTTP asks to stop the broker")
    context.shutdown()
