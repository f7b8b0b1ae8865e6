"""Credentials of S3 in the file that AWS's tools share, which obstore does not read."""

import os
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from magnetar_broker.server.object_stores.places import PlaceRefused

if TYPE_CHECKING:
    from obstore.store import S3Credential

FIRST = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
"""Variables of other sources of credentials, which obstore knows; they come before the file."""
FILE, PROFILE = "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"
READ_AGAIN = timedelta(minutes=5)
"""The time after which the file is read again, since other programs renew credentials in it."""


def provider(environment: Mapping[str, str]) -> "Callable[[], S3Credential] | None":
    """Return a function that reads the credentials; None if they come from elsewhere.

    `PlaceRefused` if the environment names a file or profile that does not have them.
    """
    if any(environment.get(name) for name in FIRST):
        return None
    path = environment.get(FILE) or os.path.expanduser("~/.aws/credentials")
    profile = environment.get(PROFILE) or "default"
    if not (environment.get(FILE) or environment.get(PROFILE)) and not os.path.exists(path):
        return None

    def credentials() -> "S3Credential":
        return _read(path, profile)

    credentials()
    return credentials


def _read(path: str, profile: str) -> "S3Credential":
    # Without interpolation: a key may contain %.
    parser = ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise PlaceRefused(f"cannot read credentials in {path}: {error.strerror}") from error
    except (ConfigError, UnicodeDecodeError):
        # The text of the error has the line, which may be a key.
        raise PlaceRefused(f"cannot read credentials in {path}: it is not an INI file") from None
    found = parser[profile] if parser.has_section(profile) else {}
    key, secret = found.get("aws_access_key_id"), found.get("aws_secret_access_key")
    if not key or not secret:
        raise PlaceRefused(
            f"profile {profile} in {path} has no aws_access_key_id and aws_secret_access_key:"
            f" add them, name another profile with {PROFILE}, or set AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY"
        )
    return {
        "access_key_id": key,
        "secret_access_key": secret,
        "token": found.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + READ_AGAIN,
    }
