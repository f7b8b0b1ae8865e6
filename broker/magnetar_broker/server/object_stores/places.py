"""The text that names a place for objects, such as `s3://bucket/prefix?region=eu-west-1`.

It is written to records of logs and shown to operators, so it never has credentials.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "s3": frozenset({"endpoint", "region"}),
    "gs": frozenset({"endpoint"}),
    "azure": frozenset({"account", "endpoint"}),
    "file": frozenset(),
}
"""The options in the query, by the scheme."""

CREDENTIALS: Final[Mapping[str, str]] = {
    "s3": "s3ManagedLedgerOffloadCredentialId and s3ManagedLedgerOffloadCredentialSecret,"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the file of AWS_SHARED_CREDENTIALS_FILE,"
    " or the role of the machine",
    "gs": "gcsManagedLedgerOffloadServiceAccountKeyFile, GOOGLE_APPLICATION_CREDENTIALS,"
    " or the service account of the machine",
    "azure": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY,"
    " or AZURE_CLIENT_ID and what belongs to it",
    "file": "the owner and the mode of the directory",
}
"""The places where credentials come from, by the scheme."""


class PlaceRefused(ValueError):
    """Raised if the text names no place, or this installation cannot use it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The parts of a place."""

    text: str
    """The whole text: it has no credentials."""
    scheme: str
    bucket: str
    """The bucket or container; empty for a directory."""
    prefix: str
    """The prefix of all object names, without `/` at its ends; for `file`, the directory."""
    options: Mapping[str, str]


def parse(text: str) -> Place:
    """Return the parts of the text of a place; `PlaceRefused` if it names none.

    No text of an error has a part of it that may be a password.
    """
    parts = _split(text)
    if parts.scheme not in OPTIONS:
        raise PlaceRefused(
            "a place for objects begins with s3://, gs://, azure:// or file://,"
            " such as s3://bucket/prefix?region=eu-west-1"
        )
    if "@" in parts.netloc:
        raise PlaceRefused(
            "a place for objects must not contain credentials:"
            f" remove the part before @, and set {CREDENTIALS[parts.scheme]}"
        )
    if parts.fragment:
        raise PlaceRefused("a place for objects must not contain #")
    options = _options(parts.scheme, parts.query)
    if parts.scheme == "file":
        return _directory(text, parts.netloc, unquote(parts.path))
    if not parts.netloc:
        raise PlaceRefused(f'"{text}" names no bucket: expected {parts.scheme}://bucket/prefix')
    prefix = unquote(parts.path).strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise PlaceRefused(f'the path of "{text}" has an empty part, or . or .. in it')
    return Place(text, parts.scheme, parts.netloc, prefix, options)


def unwritable_directory(place: Place) -> str:
    """Return why nothing may be written to a directory, or "" if it may be.

    While nothing is mounted at a mount point it is a directory of the file system around it, which
    would fill up.  A directory in the mounted file system is missing then.
    """
    if not os.path.isdir(place.prefix):
        return f"{place.text} is not a directory: create it, or mount it"
    if os.path.ismount(place.prefix):
        return (
            f"{place.text} is a mount point, which is there although nothing is mounted: create a"
            f" directory in it, such as {place.text.rstrip('/')}/objects, and name that"
        )
    return ""


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:  # brackets that do not belong there
        raise PlaceRefused(f"a place for objects, or its endpoint, is not a URL: {error}") from None


def _options(scheme: str, query: str) -> Mapping[str, str]:
    """Return the options of a query; refuse unknown ones, which may be secrets, by name only."""
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in OPTIONS[scheme]:
            known = ", ".join(sorted(OPTIONS[scheme])) or "none"
            raise PlaceRefused(
                f'"{key}" is not an option of a place that begins with {scheme}://:'
                f" expected {known}; credentials are taken from {CREDENTIALS[scheme]}"
            )
        if key in options:
            raise PlaceRefused(f"the place for objects has the option {key} twice")
        options[key] = value
    if (endpoint := options.get("endpoint")) is not None:
        _check_endpoint(endpoint)
    return options


def _check_endpoint(endpoint: str) -> None:
    parts = _split(endpoint)
    if "@" in parts.netloc:
        raise PlaceRefused("the endpoint must not contain credentials: remove the part before @")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise PlaceRefused(
            f'"{endpoint}" is not an endpoint: expected https://host:port or http://host:port'
        )


def _directory(text: str, host: str, path: str) -> Place:
    if host not in ("", "localhost") or not path.strip("/"):
        raise PlaceRefused(f'"{text}" names no directory of this machine: expected file:///path')
    return Place(text, "file", "", path.rstrip("/"), {})
