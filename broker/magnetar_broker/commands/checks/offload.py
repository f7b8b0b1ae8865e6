"""The store of objects that ledgers are offloaded to: whether it can be used as a broker does."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.config.offload_places import offloads_by_itself, place_in
from magnetar_broker.server.object_stores.credentials import credentials_in
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.server.object_stores.places import PlaceRefused, parse
from magnetar_broker.server.object_stores.time_limits import TimeLimits
from magnetar_storage.errors import AccessDenied, NoObject, StorageError, Unavailable
from magnetar_storage.objects.interfaces import Objects

SUBJECT = "offload"
LIMITS = TimeLimits(connect_seconds=5, request_seconds=20, retries=0, retry_seconds=0)
"""The time limits of a command that somebody waits for."""
UNTIL_THEN = "until this is corrected, ledgers stay on this disk, and offloaded ones are unreadable"


def check(settings: Settings) -> Iterator[Finding]:
    """Write, read, list and delete an object at the place of the settings, if they name one."""
    text = place_in(settings)
    if not text:
        return
    name = f"magnetar-doctor-{os.urandom(8).hex()}"
    began = time.perf_counter()
    try:
        objects = open_objects(text, credentials_in(settings), LIMITS)
        tells_missing = use(objects, name)
    except (PlaceRefused, StorageError) as error:
        yield Finding("error", SUBJECT, str(error), UNTIL_THEN)
        return
    took_ms = (time.perf_counter() - began) * 1000
    did = f"{text}: an object was written, read, listed and deleted in {took_ms:.0f} ms"
    yield Finding("ok", SUBJECT, did)
    if not tells_missing:
        yield Finding(
            "warning", SUBJECT, f"{text}: access to an object that is missing is denied",
            "permit to list the bucket (s3:ListBucket), so that missing objects are told apart",
        )  # fmt: skip
    if not offloads_by_itself(settings):
        yield Finding(
            "note", SUBJECT, "no threshold is set: ledgers are offloaded on request, or by policy",
            "managedLedgerOffloadAutoTriggerSizeThresholdBytes=0 offloads all closed ledgers",
        )  # fmt: skip
    yield from _same_disk(text, settings.data_dir)


def use(objects: Objects, name: str) -> bool:
    """Use an object as a broker does; return whether a missing one is reported as missing."""
    data = os.urandom(64)
    try:
        objects.upload(name, len(data), lambda offset, size: data[offset : offset + size])
        if objects.read(name, 0, len(data)) != data:
            raise Unavailable(f"object {name} has other bytes than those that were written")
        next(iter(objects.list("")), None)
    except StorageError:
        # Its answer would hide the reason, and there may be nothing to delete.
        with suppress(StorageError):
            objects.delete(name)
        raise
    objects.delete(name)
    try:
        objects.read(name, 0, 1)
    except NoObject:
        return True
    except AccessDenied:
        return False
    raise Unavailable(f"object {name} can be read although it was deleted")


def _same_disk(text: str, data_dir: str) -> Iterator[Finding]:
    """Yield a warning if a directory for objects shares the file system of the data."""
    place = parse(text)
    if place.scheme != "file" or not os.path.isdir(data_dir):
        return
    if os.stat(place.prefix).st_dev == os.stat(data_dir).st_dev:
        yield Finding(
            "warning", SUBJECT, f"{place.prefix} is on the same file system as {data_dir}: what is "
            "offloaded takes as much room there", "name a directory of another one",
        )  # fmt: skip
