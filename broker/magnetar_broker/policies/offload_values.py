"""The policy that says where and when ledgers are offloaded; its levels are merged by member.

The value is a JSON object with members of Pulsar's, as it was sent.  Credentials are not among
them: a policy is shown to everyone who administers the namespace, so the broker has credentials in
its settings or its environment.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from magnetar_broker.config import Settings
from magnetar_broker.config.domains import ReadPriority
from magnetar_broker.config.offload_places import (
    check_allowed,
    driver_named,
    kind_of,
    members_in,
    place_among,
)
from magnetar_broker.policies.codecs import (
    ANY_LONG,
    Anything,
    Document,
    DocumentField,
    OneOf,
    OutOfRange,
    Text,
)

DRIVER = "managedLedgerOffloadDriver"
SIZE_THRESHOLD = "managedLedgerOffloadThresholdInBytes"
TIME_THRESHOLD = "managedLedgerOffloadThresholdInSeconds"
DELETION_LAG = "managedLedgerOffloadDeletionLagInMillis"
READ_PRIORITY = "managedLedgerOffloadedReadPriority"
KINDS = ("managedLedgerOffload", "s3ManagedLedgerOffload", "gcsManagedLedgerOffload")
"""The beginnings of members for all kinds of storage, and for one."""
LOCATIONS = ("Bucket", "Region", "ServiceEndpoint")
CREDENTIALS = (
    "s3ManagedLedgerOffloadCredentialId", "s3ManagedLedgerOffloadCredentialSecret",
    "s3ManagedLedgerOffloadRole", "gcsManagedLedgerOffloadServiceAccountKeyFile",
    "gcsManagedLedgerOffloadServiceAccountKey",
)  # fmt: skip
EXTRA = "managedLedgerExtraConfigurations"
IGNORED: dict[str, Any] = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadMaxThreads": 2,
    "managedLedgerOffloadReadThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
    "managedLedgerOffloadMaxBlockSizeInBytes": 64 << 20,
    "managedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
    EXTRA: {},
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 64 << 20,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
    "gcsManagedLedgerOffloadRegion": None,
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 128 << 20,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
    "fileSystemProfilePath": "conf/filesystem_offload_core_site.xml",
}
"""The members that are stored without effect, with the values that Pulsar's clients send anyway."""


def _check_credentials(members: Mapping[str, Any]) -> None:
    found = [name for name in CREDENTIALS if members.get(name)]
    if found:  # promise: a policy holds no credentials
        raise OutOfRange(
            f"{found[0]} is a credential, which policies do not hold: give it in the settings of "
            "the broker or in its environment, or use the role of its instance"
        )
    if members.get(EXTRA):
        raise OutOfRange(f"{EXTRA} has no effect, and may hold credentials: leave it out")
    # Also if the driver ignores it: a policy is shown to all who administer the namespace.
    for name in (kind + "ServiceEndpoint" for kind in KINDS[:2]):
        if "@" in (
            members.get(name) or ""
        ):  # promise: an endpoint in a policy holds no credentials
            raise OutOfRange(f"{name} contains credentials, which policies do not hold")
    if "@" in (members.get("fileSystemURI") or "").partition("//")[2].partition("/")[0]:
        raise OutOfRange("fileSystemURI contains credentials, which policies do not hold")


CODEC = Document(
    DocumentField(DRIVER, Text()),
    *(DocumentField(kind + what, Text()) for kind in KINDS[:2] for what in LOCATIONS),
    DocumentField("gcsManagedLedgerOffloadBucket", Text()),
    DocumentField("fileSystemURI", Text()),
    *(DocumentField(name, ANY_LONG) for name in (SIZE_THRESHOLD, TIME_THRESHOLD, DELETION_LAG)),
    DocumentField(READ_PRIORITY, OneOf(ReadPriority)),
    *(DocumentField(name, Anything()) for name in (*IGNORED, *CREDENTIALS)),
    check=_check_credentials,
)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a level over those of the level below."""
    outdated = set()
    for what in LOCATIONS:
        common, *own = (kind + what for kind in KINDS)
        if common in above:
            outdated.update(own)  # they would precede it
        elif DRIVER in above and kind_of(above) != kind_of(below):
            outdated.add(common)  # it is the bucket of another kind of storage
    kept = {name: value for name, value in below.items() if name not in outdated}
    return {**kept, **above}


def check_offload(settings: Settings, members: Mapping[str, Any]) -> None:
    """Raise `OutOfRange` if a policy names no driver of this broker, or no place that it may name.

    Without a directory, it is that of the settings.
    """
    try:
        driver_named(members.get(DRIVER) or "")
        if kind_of(members) != "file" or members.get("fileSystemURI"):
            place_among(members, members_in(settings))
    except ValueError as error:
        raise OutOfRange(str(error)) from error


def check_location(settings: Settings, members: Mapping[str, Any]) -> None:
    """Raise `OutOfRange` if members that may be incomplete name a place that is not allowed."""
    try:
        check_allowed(members, members_in(settings))
    except ValueError as error:
        raise OutOfRange(str(error)) from error


def warning(settings: Settings, members: Mapping[str, Any]) -> str:
    """Return which members of a policy have no effect, and why; "" if there are none."""
    own = members_in(settings)
    trouble = offload_rules(merged(own, members), own).trouble
    if trouble:
        return f"nothing is offloaded: {trouble}"
    unused = [name for name, usual in IGNORED.items() if members.get(name, usual) != usual]
    if not unused:
        return ""
    return f"{', '.join(unused)}: stored without effect: the broker chooses these values itself"


class OffloadRules(NamedTuple):
    """The rules by which the ledgers of one topic are offloaded, deleted here, and read."""

    place: str = ""
    """The place of the objects, as `place_of` writes it; "" means that nothing is offloaded."""
    trouble: str = ""
    """Why nothing can be offloaded although a driver is named; "" if nothing is wrong."""
    size_threshold: int = -1
    """The most bytes of closed ledgers that are not offloaded; below 0 means no limit."""
    time_threshold_ms: int = -1
    """The time since a ledger was closed after which it is offloaded; below 0 means never."""
    deletion_lag_ms: int = -1
    """The time since a ledger was offloaded after which its file is deleted; below 0 means never.
    """
    files_first: bool = True
    """Whether a ledger is read from its file while there is one, rather than from its object."""


def offload_rules(members: Mapping[str, Any], own: Mapping[str, Any]) -> OffloadRules:
    """Return the rules in the effective members of the policy; `own` are those of the settings.

    A place that the settings do not allow (any more) is trouble, even if it was stored before.
    """
    place, trouble = "", ""
    try:
        # promise[members, own) -> members, members)]: what was stored earlier is checked, too
        place = place_among(members, own)
    except ValueError as error:
        trouble = str(error)
    seconds = members.get(TIME_THRESHOLD, -1)
    return OffloadRules(
        place,
        trouble,
        members.get(SIZE_THRESHOLD, -1),
        seconds * 1000 if seconds >= 0 else -1,
        members.get(DELETION_LAG, -1),
        members.get(READ_PRIORITY) != ReadPriority.TIERED_STORAGE,
    )
