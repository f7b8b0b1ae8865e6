"""The place to which ledgers are offloaded, as one text without secrets.

The text has the form of a URL: `s3://bucket/prefix?endpoint=...&region=...`,
`gs://bucket/prefix`, `azure://container/prefix?account=...`, or `file:///directory`.  A store of
objects is opened by it, so equal texts are the same store.

Policies choose the kind of storage and the bucket.  The broker's credentials and the directories
that it may write belong to the operator, so the settings alone decide where they are used:
`place_among` refuses all other service endpoints and directories.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from magnetar_broker.config.domains import OffloadDriver

if TYPE_CHECKING:
    from magnetar_broker.config.settings import Settings

SCHEMES = {
    OffloadDriver.S3: "s3",
    OffloadDriver.AWS_S3: "s3",
    OffloadDriver.GOOGLE: "gs",
    OffloadDriver.AZURE: "azure",
}
"""The schemes of drivers whose places are buckets."""


def place_of(
    driver: OffloadDriver,
    bucket: str = "",
    region: str = "",
    endpoint: str = "",
    account: str = "",
    uri: str = "",
) -> str:
    """Return the text of a place; ValueError says which value is missing or wrong.

    `bucket` can have a prefix, as in `bucket/prefix`; `uri` is for the driver `filesystem` alone.
    """
    if driver is OffloadDriver.FILES:
        return _directory(uri)
    name, *prefix = bucket.strip("/").split("/")
    if not name:
        raise ValueError(f"the driver {driver} needs a bucket, and none is set")
    if not re.fullmatch(r"[-.\w]+", name, re.ASCII) or {"", ".", ".."} & {name, *prefix}:
        raise ValueError(f"{bucket!r} is not a bucket: expected its name, or name/prefix")
    path = "/".join((name, *map(quote, prefix)))
    if endpoint:
        _check_endpoint(endpoint)
    # promise[fullmatch -> match]: a region cannot change the host that requests are sent to
    if region and not re.fullmatch(r"[-\w]+", region, re.ASCII):
        raise ValueError(f"{region!r} is not a region: expected a name such as eu-west-1")
    found = {"account": account, "endpoint": endpoint, "region": region}
    # Operators read the endpoint as they wrote it.
    query = urlencode({name: value for name, value in found.items() if value}, safe=":/")
    return f"{SCHEMES[driver]}://{path}" + (f"?{query}" if query else "")


def _directory(uri: str) -> str:
    if not uri:
        raise ValueError("the driver filesystem needs fileSystemURI, and it is not set")
    path = _path_in(uri)
    if not path.strip("/"):
        raise ValueError(f"fileSystemURI is {uri}: expected file:///DIRECTORY")
    return f"file://{quote(path.rstrip('/'))}"


def _path_in(uri: str) -> str:
    """Return the path that a URI or a path names on this machine; "" if it names none."""
    if uri.startswith("/"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    is_here = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return unquote(parts.path) if is_here and not (parts.query or parts.fragment) else ""


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        host, has_user = parts.hostname, "@" in parts.netloc
    except ValueError:
        raise ValueError("the service endpoint is not a URL") from None
    if has_user:  # promise: credentials do not become part of a place, which is shown
        raise ValueError("the service endpoint contains credentials: give them in the settings")
    is_plain = not (parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not host or not is_plain:
        raise ValueError(f"the service endpoint is {endpoint}: expected http://... or https://...")


MEMBERS = {
    "managed_ledger_offload_driver": "managedLedgerOffloadDriver",
    "managed_ledger_offload_bucket": "managedLedgerOffloadBucket",
    "managed_ledger_offload_service_endpoint": "managedLedgerOffloadServiceEndpoint",
    "s3_managed_ledger_offload_bucket": "s3ManagedLedgerOffloadBucket",
    "s3_managed_ledger_offload_region": "s3ManagedLedgerOffloadRegion",
    "s3_managed_ledger_offload_service_endpoint": "s3ManagedLedgerOffloadServiceEndpoint",
    "gcs_managed_ledger_offload_bucket": "gcsManagedLedgerOffloadBucket",
    "file_system_uri": "fileSystemURI",
    "managed_ledger_offload_auto_trigger_size_threshold_bytes": (
        "managedLedgerOffloadThresholdInBytes"
    ),
    "managed_ledger_offload_threshold_in_seconds": "managedLedgerOffloadThresholdInSeconds",
    "managed_ledger_offload_deletion_lag_ms": "managedLedgerOffloadDeletionLagInMillis",
    "managed_ledger_data_read_priority": "managedLedgerOffloadedReadPriority",
}
"""The settings that policies can override, with the members that they have there."""


def driver_named(text: str) -> OffloadDriver:
    """Return the driver of a name in any case; ValueError if there is none."""
    for driver in OffloadDriver:
        if driver.lower() == text.lower():
            return driver
    raise ValueError(f"{text!r} is not a driver: expected one of {', '.join(OffloadDriver)}")


def kind_of(members: Mapping[str, Any]) -> str:
    """Return the scheme of the driver's places; "" if there is no driver, or an unknown one."""
    try:
        return SCHEMES.get(driver_named(members.get("managedLedgerOffloadDriver") or ""), "file")
    except ValueError:
        return ""


def place_among(members: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return the place that members of Pulsar's offload policies name; "" without a driver.

    `own` are the members that the settings give.  ValueError says which member is missing or wrong,
    or that the settings do not allow the place (`check_allowed`).
    """
    name = members.get("managedLedgerOffloadDriver")
    if not name:
        return ""
    driver, kind = driver_named(name), kind_of(members)
    # Where a bucket is, matters to S3 alone: its requests are signed for a region.
    region = _member(members, kind, "Region") if kind == "s3" else ""
    place = place_of(
        driver,
        _member(members, kind, "Bucket"),
        region,
        _member(members, kind, "ServiceEndpoint"),
        uri=str(members.get("fileSystemURI") or ""),
    )
    check_allowed(members, own)
    return place


def check_allowed(members: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise ValueError if members name an endpoint or a directory that the settings do not allow.

    `own` are the members that the settings give.  An endpoint is that of the settings for the same
    kind of storage, or the provider's own; a directory is that of the settings, or below it.
    """
    kind = kind_of(members)
    endpoint = _member(members, kind, "ServiceEndpoint")
    uri = str(members.get("fileSystemURI") or "")
    if kind == "file" and uri:
        _check_own_directory(uri, str(own.get("fileSystemURI") or ""))
    elif kind in OWN_MEMBERS and endpoint and endpoint != _own_endpoint(own, kind):
        # promise: credentials are sent to providers and to endpoints of the settings only
        raise ValueError(
            f"the service endpoint {endpoint} is not that of the broker's settings for "
            f"{members['managedLedgerOffloadDriver']}, and credentials of the broker are sent to "
            "no other: set it in broker.conf, and leave it out of the policy"
        )


OWN_MEMBERS = {"s3": "s3ManagedLedgerOffload", "gs": "gcsManagedLedgerOffload", "azure": ""}
"""The beginnings of the members for one kind of storage, by its scheme; "" if it has none."""


def _member(members: Mapping[str, Any], kind: str, what: str) -> str:
    """Return a member for one kind of storage or, without one, that for all kinds."""
    common = str(members.get(f"managedLedgerOffload{what}") or "")
    own = OWN_MEMBERS.get(kind)
    return str((members.get(f"{own}{what}") if own else "") or common)


def _own_endpoint(own: Mapping[str, Any], kind: str) -> str:
    """Return the endpoint that the settings name for one kind of storage; "" without one."""
    common = "managedLedgerOffloadServiceEndpoint"
    # promise[without if name != common or kind_of(own) == kind]: the endpoint of one kind of
    #   storage is not sent the credentials of another kind
    return _member(
        {name: value for name, value in own.items() if name != common or kind_of(own) == kind},
        kind,
        "ServiceEndpoint",
    )


def _check_own_directory(uri: str, own: str) -> None:
    """Refuse a directory that is neither that of the settings nor below it."""
    path, root = _path_in(uri).rstrip("/"), _path_in(own).rstrip("/")
    below = path.removeprefix(f"{root}/")
    # promise: objects are written to the directory of the settings only, and to those below it
    if not root or (path != root and (below == path or ".." in below.split("/"))):
        raise ValueError(
            f"the directory {uri} is neither that of the broker's settings nor below it, and the "
            "broker writes objects to no other: set fileSystemURI in broker.conf"
        )


def place_in(settings: "Settings") -> str:
    """Return the place that settings name; "" without a driver.  ValueError as in `place_among`."""
    members = members_in(settings)
    return place_among(members, members)


def members_in(settings: "Settings") -> dict[str, Any]:
    """Return the members that the settings give: the default of the policy."""
    found = ((member, getattr(settings, field)) for field, member in MEMBERS.items())
    return {member: value for member, value in found if value is not None}


def offloads_by_itself(settings: "Settings") -> bool:
    """Return whether the settings have a threshold, without which only requests offload ledgers."""
    return (
        settings.managed_ledger_offload_auto_trigger_size_threshold_bytes >= 0
        or settings.managed_ledger_offload_threshold_in_seconds >= 0
    )


def contradictory_offload(settings: "Settings") -> Iterator[tuple[str, str, str]]:
    """Yield settings with which nothing could be offloaded, with value and reason."""
    try:
        place_in(settings)
    except ValueError as error:
        yield "managedLedgerOffloadDriver", str(settings.managed_ledger_offload_driver), str(error)
    key = settings.s3_managed_ledger_offload_credential_id
    secret = settings.s3_managed_ledger_offload_credential_secret
    if (key is None) != (secret is None):
        missing, given = ("Id", "Secret") if key is None else ("Secret", "Id")
        why = f"s3ManagedLedgerOffloadCredential{given} needs it: set both or none of them"
        yield f"s3ManagedLedgerOffloadCredential{missing}", "", why
