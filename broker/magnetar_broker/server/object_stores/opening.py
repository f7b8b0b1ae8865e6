"""Opening a store of objects by its place."""

from importlib.util import find_spec

from magnetar_broker.server.object_stores.credentials import FROM_ELSEWHERE, Credentials
from magnetar_broker.server.object_stores.places import (
    Place,
    PlaceRefused,
    parse,
    unwritable_directory,
)
from magnetar_broker.server.object_stores.time_limits import DEFAULT_LIMITS, TimeLimits
from magnetar_storage.objects.interfaces import Objects


def open_objects(
    text: str,
    credentials: Credentials = FROM_ELSEWHERE,
    limits: TimeLimits = DEFAULT_LIMITS,
) -> Objects:
    """Open the store of objects of a place; makes no request, and never creates the place.

    Credentials that are not given come from the environment, the files that it names, or the role
    of the machine.  A process must not fork children that use a store after it has made a request
    of any store: obstore's threads are not in the child, whose requests would never end.
    `PlaceRefused` if the place is not one, or cannot be used in this installation.
    """
    place = parse(text)
    try:
        # Here, since it takes memory and time that a broker without a place does not need.
        from magnetar_broker.server.object_stores.stores import objects_of  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        raise PlaceRefused(_without_obstore(place)) from error
    return objects_of(place, credentials, limits)


def trouble_with(text: str) -> str:
    """Return why the store of a place cannot be opened on this machine, or "" if it can.

    For a start, which it does not slow down: it makes no request, and does not load obstore.
    """
    try:
        place = parse(text)
    except PlaceRefused as error:
        return str(error)
    if find_spec("obstore") is None:
        return _without_obstore(place)
    return unwritable_directory(place) if place.scheme == "file" else ""


def _without_obstore(place: Place) -> str:
    return f"{place.text} needs the package obstore: run pip install 'magnetar[s3]'"
