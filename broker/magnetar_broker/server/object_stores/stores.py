"""The stores of obstore, one function for each scheme of a place; importing this loads obstore."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from magnetar_broker.server.object_stores import aws_profile
from magnetar_broker.server.object_stores.credentials import Credentials
from magnetar_broker.server.object_stores.obstore_objects import ObstoreObjects
from magnetar_broker.server.object_stores.places import Place, PlaceRefused, unwritable_directory
from magnetar_broker.server.object_stores.time_limits import TimeLimits
from magnetar_storage.errors import Unavailable

if TYPE_CHECKING:
    from obstore.store import (
        AzureConfig,
        ClientConfig,
        GCSConfig,
        ObjectStore,
        RetryConfig,
        S3Config,
        S3Credential,
    )


def objects_of(place: Place, credentials: Credentials, limits: TimeLimits) -> ObstoreObjects:
    """Return the objects of a place; `PlaceRefused` if the environment has wrong settings."""
    make = MAKERS[place.scheme]
    try:
        # promise[(limits.retries, 0) -> (limits.retries, limits.retries)]: a write with a condition
        #   is sent once
        store, once = (make(place, credentials, limits, retries) for retries in (limits.retries, 0))
    except PlaceRefused:
        raise
    except Exception as error:
        # Without its text, which may have a part of a key that is not valid.
        raise PlaceRefused(
            f"{place.text} cannot be opened ({type(error).__name__}): check {CHECK[place.scheme]}"
        ) from None
    if place.scheme != "file":
        return ObstoreObjects(place, store, once)
    return ObstoreObjects(place, store, once, _checking(place), _syncing(place.prefix))


CHECK: Final = {
    "s3": "the environment variables that begin with AWS_",
    "gs": "the environment variables that begin with GOOGLE_, and the file of the account",
    "azure": "the environment variables that begin with AZURE_, and the option account",
    "file": "the owner and the mode of the directory",
}
"""The settings to check, by the scheme, if a store cannot be opened."""


def _s3(place: Place, credentials: Credentials, limits: TimeLimits, retries: int) -> "ObjectStore":
    # One request for one object is what all stores that are like S3 know.
    config: S3Config = {"disable_bulk_delete": True}
    if "endpoint" in place.options:
        config["endpoint"] = place.options["endpoint"]
    if "region" in place.options:
        config["region"] = place.options["region"]
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=_client(limits),
        retry_config=_retry(limits, retries),
        credential_provider=_given(credentials) or aws_profile.provider(os.environ),
    )


def _given(credentials: Credentials) -> "Callable[[], S3Credential] | None":
    """Return a function that returns the credentials of the settings; None if there are none."""
    if not credentials.s3_key_id:
        return None
    # By a function and not as options, which obstore shows.
    return lambda: {
        "access_key_id": credentials.s3_key_id,
        "secret_access_key": credentials.s3_secret,
        "expires_at": None,
    }


def _google(
    place: Place, credentials: Credentials, limits: TimeLimits, retries: int
) -> "ObjectStore":
    config: GCSConfig = {}
    if "endpoint" in place.options:
        config["base_url"] = place.options["endpoint"]
    if credentials.google_key_file:
        config["service_account"] = credentials.google_key_file
    return GCSStore(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=_client(limits),
        retry_config=_retry(limits, retries),
    )


def _azure(
    place: Place, credentials: Credentials, limits: TimeLimits, retries: int
) -> "ObjectStore":
    config: AzureConfig = {}
    if "account" in place.options:
        config["account_name"] = place.options["account"]
    if "endpoint" in place.options:
        config["endpoint"] = place.options["endpoint"]
    return AzureStore(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=_client(limits),
        retry_config=_retry(limits, retries),
    )


def _directory(
    place: Place, credentials: Credentials, limits: TimeLimits, retries: int
) -> "ObjectStore":
    # Not created: if its file system is not mounted, the parent one would fill up.  A mount point
    # is opened for what is in it; it is refused by each write.
    if not os.path.isdir(place.prefix):
        raise PlaceRefused(unwritable_directory(place))
    return LocalStore(place.prefix)


Maker = Callable[[Place, Credentials, TimeLimits, int], "ObjectStore"]
MAKERS: Final[Mapping[str, Maker]] = {
    "s3": _s3,
    "gs": _google,
    "azure": _azure,
    "file": _directory,
}


def _client(limits: TimeLimits) -> "ClientConfig":
    return {
        # The operator chooses by the endpoint; endpoints that are not named use TLS.
        "allow_http": True,
        "connect_timeout": timedelta(seconds=limits.connect_seconds),
        "timeout": timedelta(seconds=limits.request_seconds),
    }


def _retry(limits: TimeLimits, retries: int) -> "RetryConfig":
    return {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=limits.retry_seconds),
        "backoff": {"max_backoff": timedelta(seconds=5)},
    }


def _checking(place: Place) -> Callable[[], None]:
    """Return a function that raises `Unavailable` if nothing may be written to a directory."""

    def check() -> None:
        # promise: nothing is written to the file system around one that is not mounted
        if why := unwritable_directory(place):
            raise Unavailable(why)

    return check


def _syncing(root: str) -> Callable[[str], None]:
    """Return a function that makes a written file of a directory durable, with its name."""

    def settle(name: str) -> None:
        path = os.path.join(root, name)
        _sync(path)  # promise: an object in a directory survives a power failure
        while len(path := os.path.dirname(path)) >= len(root):
            # The directories above may have been created with the file.
            _sync(path)  # promise: an object in a directory keeps its name after a power failure

    return settle


def _sync(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise Unavailable(f"cannot sync {path}: {error.strerror}") from error
