"""Offloading over REST: its policies, the request to offload a topic, and the status."""

from typing import Any

from conformance.differences import Difference, differs
from conformance.rest_differences import REFUSED
from conformance.trace import Trace

DEFAULTS = Difference(
    "`offloadPolicies` over REST",
    "shown with the default of each other member, which precedes the next level",
    "shown with the members that were set; each other one is that of the next level",
)
CREDENTIALS = Difference(
    "credentials in `offloadPolicies`",
    "stored, and shown to everyone who may read the policies",
    "412: the settings, the environment or the instance of the broker have them",
)
DRIVERS = Difference(
    "the drivers of offloading",
    "also `aliyun-oss`",
    "412 for `aliyun-oss`; services that are compatible with S3 have the driver `aws-s3`",
)
S3 = {"managedLedgerOffloadDriver": "aws-s3"}
FILES = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///tmp"}
SETTINGS = {"fileSystemURI": "file:///tmp"}
"""The directory that policies may name in Magnetar; in the original they may name any."""


def _namespace(t: Trace) -> str:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, {"bundles": {"numBundles": 2}})
    return path


def thresholds_of_a_namespace(t: Trace) -> None:
    path = _namespace(t)
    for policy in ("offloadThreshold", "offloadThresholdInSeconds", "offloadDeletionLagMs"):
        t.web("GET", f"{path}/{policy}")
        for value in (1000, 0, -1):
            t.web("PUT", f"{path}/{policy}", value)
            t.web("GET", f"{path}/{policy}")
        t.web("PUT", f"{path}/{policy}", "large")
        t.web("PUT", f"{path}/{policy}", {})
        t.web("PUT", f"{path}/{policy}", b"")
        t.web("GET", f"{path}/{policy}")
    t.web("DELETE", f"{path}/offloadDeletionLagMs")
    t.web("GET", f"{path}/offloadDeletionLagMs")


def thresholds_are_members_of_the_policies(t: Trace) -> None:
    path = _namespace(t)
    t.web("GET", f"{path}/offloadPolicies")
    lag = "managedLedgerOffloadDeletionLagInMillis"
    t.web("POST", f"{path}/offloadPolicies", {**FILES, lag: 7})
    t.web("GET", f"{path}/offloadThreshold")
    t.web("GET", f"{path}/offloadDeletionLagMs")
    t.web("PUT", f"{path}/offloadThreshold", 5)
    t.web("PUT", f"{path}/offloadThresholdInSeconds", 6)
    members = ("managedLedgerOffloadThresholdInBytes", "managedLedgerOffloadThresholdInSeconds")
    t.asks_fields(f"{path}/offloadPolicies", "managedLedgerOffloadDriver", *members, lag)
    t.web("DELETE", f"{path}/removeOffloadPolicies")
    t.web("GET", f"{path}/offloadPolicies")
    t.web("GET", f"{path}/offloadThreshold")
    t.web("GET", f"{path}/offloadDeletionLagMs")


def policies_that_are_refused(t: Trace) -> None:
    t.web("PUT", t.path)
    refused: tuple[Any, ...] = (
        {},
        {"managedLedgerOffloadDriver": "magnetic-tape"},
        S3,
        {"managedLedgerOffloadDriver": "google-cloud-storage"},
        {"managedLedgerOffloadDriver": "azureblob", "s3ManagedLedgerOffloadBucket": "b"},
        {**FILES, "managedLedgerOffloadThresholdInBytes": "large"},
        7,
    )
    for path in (_namespace(t), t.path):
        for value in refused:
            t.web("POST", f"{path}/offloadPolicies", value)
        t.web("GET", f"{path}/offloadPolicies")


@differs(DEFAULTS)
def policies_of_a_namespace(t: Trace) -> None:
    path = _namespace(t)
    for bucket in ("managedLedgerOffloadBucket", "s3ManagedLedgerOffloadBucket"):
        t.web("POST", f"{path}/offloadPolicies", {**S3, bucket: "b", "colour": "green"})
        t.web("GET", f"{path}/offloadPolicies")
    t.web("PUT", f"{path}/offloadThreshold", 5)
    t.web("GET", f"{path}/offloadPolicies")


@differs(DEFAULTS)
def policies_of_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/offloadPolicies")
    t.web("POST", f"{t.path}/offloadPolicies", FILES)
    t.web("GET", f"{t.path}/offloadPolicies")
    t.web("DELETE", f"{t.path}/offloadPolicies")
    t.web("GET", f"{t.path}/offloadPolicies")


@differs(CREDENTIALS)
def policies_with_credentials(t: Trace) -> None:
    path = _namespace(t)
    member = "s3ManagedLedgerOffloadCredentialSecret"
    secret = {**S3, "s3ManagedLedgerOffloadBucket": "b", member: "secret"}
    t.web("POST", f"{path}/offloadPolicies", secret)
    t.asks_fields(f"{path}/offloadPolicies", member)


@differs(DRIVERS)
def drivers(t: Trace) -> None:
    path = _namespace(t)
    for driver in ("S3", "AWS-S3", "google-cloud-storage", "azureblob", "aliyun-oss"):
        value = {"managedLedgerOffloadDriver": driver, "managedLedgerOffloadBucket": "b"}
        t.web("POST", f"{path}/offloadPolicies", value)
    t.web("POST", f"{path}/offloadPolicies", {"managedLedgerOffloadDriver": "filesystem"})


def policies_of_what_is_not_there(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    for policy in ("offloadPolicies", "offloadThreshold", "offloadDeletionLagMs"):
        t.web("GET", f"{path}/{policy}")
    t.web("PUT", f"{path}/offloadThreshold", 5)
    t.web("GET", f"{t.path}/offloadPolicies")
    t.web("POST", f"{t.path}/offloadPolicies", FILES)


@differs(REFUSED)
def policies_for_a_namespace_that_is_not_there(t: Trace) -> None:
    t.web("POST", f"namespaces/public/{t.token}/offloadPolicies", FILES)


def policies_of_a_partition(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 2)
    t.web("GET", f"{t.path}/offloadPolicies")
    t.web("POST", f"{t.path}-partition-0/offloadPolicies", FILES)


def offloading_without_a_driver(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/offload")
    t.web("PUT", f"{t.path}/offload", {"ledgerId": 0, "entryId": 0, "partitionIndex": -1})
    t.asks_fields(f"{t.path}/offload", "status", "firstUnoffloadedMessage")
    t.web("GET", f"{t.path}/offload", types=True)
    t.web("PUT", f"{t.path}/offload", {"ledgerId": 1 << 40, "entryId": 0, "partitionIndex": -1})
    t.asks_fields(f"{t.path}/offload", "status", "firstUnoffloadedMessage")


def positions_that_are_none(t: Trace) -> None:
    t.web("PUT", t.path)
    for body in (b"", b"null", b'"first"', b"7", b"{"):
        t.web("PUT", f"{t.path}/offload", body)
    t.web("PUT", f"{t.path}/offload", {"ledgerId": "first", "entryId": 0})
    t.web("GET", f"{t.path}/offload")


def positions_by_name(t: Trace) -> None:
    t.web("PUT", t.path)
    for name in ("earliest", "latest"):
        t.web("PUT", f"{t.path}/offload", name)
    t.asks_fields(f"{t.path}/offload", "status")


def positions_before_and_behind_all_messages(t: Trace) -> None:
    t.web("PUT", t.path)
    for ledger, entry in ((-1, -1), ((1 << 63) - 1, (1 << 63) - 1)):
        t.web("PUT", f"{t.path}/offload", {"ledgerId": ledger, "entryId": entry})
        t.asks_fields(f"{t.path}/offload", "status")


def positions_that_lack_a_part(t: Trace) -> None:
    t.web("PUT", t.path)
    for body in ({}, {"ledgerId": 0}, {"entryId": 0}):
        t.web("PUT", f"{t.path}/offload", body)
    t.asks_fields(f"{t.path}/offload", "status")


def offloading_what_is_not_there(t: Trace) -> None:
    position = {"ledgerId": 0, "entryId": 0, "partitionIndex": -1}
    t.web("GET", f"{t.path}/offload")
    t.web("PUT", f"{t.path}/offload", position)
    t.web("GET", f"persistent/public/{t.token}/topic/offload")
    t.web("PUT", f"persistent/public/{t.token}/topic/offload", position)


def offloading_a_partitioned_topic(t: Trace) -> None:
    position = {"ledgerId": 0, "entryId": 0, "partitionIndex": -1}
    t.web("PUT", f"{t.path}/partitions", 2)
    t.web("GET", f"{t.path}/offload")
    t.web("PUT", f"{t.path}/offload", position)
    t.web("GET", f"{t.path}-partition-1/offload")
    t.web("PUT", f"{t.path}-partition-1/offload", position)
    t.asks_fields(f"{t.path}-partition-1/offload", "status")


def what_the_statistics_have_of_it(t: Trace) -> None:
    t.web("PUT", t.path)
    t.publisher(1)
    fields = ("offloadedStorageSize", "lastOffloadLedgerId")
    times = ("lastOffloadSuccessTimeStamp", "lastOffloadFailureTimeStamp")
    t.asks_fields(f"{t.path}/stats", *fields, *times)
