"""Properties of namespaces: names and values that users set."""

from magnetar_broker.server.admin.context import (
    AdminContext,
    existing_namespace,
    namespace_in,
    properties_of,
    serving,
)
from magnetar_broker.server.admin.refusals import bounded
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response


async def properties(context: AdminContext, request: Request) -> Response:
    """Return all properties of a namespace."""
    directory = serving(context)
    stored = await directory.namespaces.get(await existing_namespace(directory, request))
    return json_response(stored.properties)


async def add_properties(context: AdminContext, request: Request) -> None:
    """Add properties; those that exist get the new values."""
    directory, name = await namespace_in(context, request)
    new = properties_of(request)
    await directory.namespaces.change_properties(name, lambda old: bounded(old | new))


async def clear_properties(context: AdminContext, request: Request) -> None:
    """Remove all properties."""
    directory, name = await namespace_in(context, request)
    await directory.namespaces.change_properties(name, lambda _: {})


async def property_(context: AdminContext, request: Request) -> Response:
    """Return the value of one property as plain text; empty if it is not set."""
    directory = serving(context)
    stored = await directory.namespaces.get(await existing_namespace(directory, request))
    key = request.part("key")
    return text_response(stored.properties.get(key, ""))


async def set_property(context: AdminContext, request: Request) -> None:
    """Set one property."""
    directory, name = await namespace_in(context, request)
    key, value = request.part("key"), request.part("value")
    await directory.namespaces.change_properties(name, lambda old: bounded({**old, key: value}))


async def remove_property(context: AdminContext, request: Request) -> Response:
    """Remove one property, and answer its former value, empty if it was not set."""
    directory, name = await namespace_in(context, request)
    key = request.part("key")
    had: list[str] = []

    def without(old: dict[str, str]) -> dict[str, str]:
        had[:] = [old.get(key, "")]
        return {name: value for name, value in old.items() if name != key}

    await directory.namespaces.change_properties(name, without)
    return text_response(had[0])
