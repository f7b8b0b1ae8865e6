"""The policy of offloading: members of three levels, parts with paths of their own, and rules."""

import os
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import LogWorld
from fakes.policy_values import STRATEGIES
from fakes.sessions import TOPIC
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver, ReadPriority
from magnetar_broker.config.offload_places import MEMBERS, SCHEMES, members_in
from magnetar_broker.policies.codecs import OutOfRange
from magnetar_broker.policies.document import policies_json, values_in_policies_json
from magnetar_broker.policies.offload_values import (
    CREDENTIALS,
    IGNORED,
    OffloadRules,
    check_offload,
    merged,
    offload_rules,
    warning,
)
from magnetar_broker.policies.policy import Origin, Policy
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import (
    OFFLOAD,
    OFFLOAD_DELETION_LAG,
    OFFLOAD_THRESHOLD,
    OFFLOAD_THRESHOLD_SECONDS,
)
from magnetar_broker.server.object_stores.places import parse
from magnetar_proto.names import TopicName

NAME = TopicName.parse(TOPIC)
NAMESPACE = NAME.namespace_name
DEFAULTS = {
    "managedLedgerOffloadThresholdInBytes": -1,
    "managedLedgerOffloadThresholdInSeconds": -1,
    "managedLedgerOffloadDeletionLagInMillis": 14_400_000,
    "managedLedgerOffloadedReadPriority": "bookkeeper-first",
}
S3 = {"managedLedgerOffloadDriver": "aws-s3", "s3ManagedLedgerOffloadBucket": "b"}
SETTINGS = Settings(
    managed_ledger_offload_driver=OffloadDriver.AWS_S3,
    s3_managed_ledger_offload_bucket="all",
    s3_managed_ledger_offload_service_endpoint="http://127.0.0.1:9000",
)


OWN = members_in(SETTINGS)
FIELDS = {member: field for field, member in MEMBERS.items()}


async def explicit(policies: Policies, policy: Policy[Any]) -> Any:
    """The value that is set on the namespace."""
    return await policies.explicit(policy, NAMESPACE)


# Levels -----------------------------------------------------------------------------------------


def test_each_member_is_that_of_the_nearest_level() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), SETTINGS)
    world.do(found.set(NAMESPACE, {OFFLOAD: {**S3, "managedLedgerOffloadThresholdInBytes": 7}}))
    world.do(found.set(NAME, {OFFLOAD: {"managedLedgerOffloadThresholdInSeconds": 9}}))
    resolved = found.resolve(OFFLOAD, NAME)
    assert resolved.origin is Origin.TOPIC
    assert resolved.value == DEFAULTS | S3 | {
        "s3ManagedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9000",
        "managedLedgerOffloadThresholdInBytes": 7,
        "managedLedgerOffloadThresholdInSeconds": 9,
    }
    assert offload_rules(resolved.value, OWN) == OffloadRules(
        "s3://b?endpoint=http://127.0.0.1:9000", "", 7, 9000, 14_400_000, True
    )


def test_the_settings_are_the_lowest_level() -> None:
    found = Policies(GuardedMetadata(LogWorld().metadata, None), SETTINGS)
    assert found.of_namespace(OFFLOAD, NAMESPACE).origin is Origin.BROKER
    rules = offload_rules(found.of_namespace(OFFLOAD, NAMESPACE).value, OWN)
    assert rules.place == "s3://all?endpoint=http://127.0.0.1:9000"
    assert (rules.size_threshold, rules.time_threshold_ms) == (-1, -1)


def test_nothing_is_offloaded_by_default() -> None:
    rules = offload_rules(OFFLOAD.default(Settings()), {})
    assert rules == OffloadRules(deletion_lag_ms=14_400_000)


@pytest.mark.parametrize(
    ("below", "above", "place"),
    [
        (S3, {"managedLedgerOffloadBucket": "c"}, "s3://c"),
        (S3, {"s3ManagedLedgerOffloadBucket": "c"}, "s3://c"),
        (
            {"managedLedgerOffloadDriver": "azureblob", "managedLedgerOffloadBucket": "container"},
            {"managedLedgerOffloadDriver": "S3", "s3ManagedLedgerOffloadRegion": "r"},
            "",
        ),
        (
            S3 | {"managedLedgerOffloadRegion": "r"},
            {"managedLedgerOffloadDriver": "S3"},
            "s3://b?region=r",
        ),
        (
            S3 | {"fileSystemURI": "file:///d"},
            {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///d/e"},
            "file:///d/e",
        ),
    ],
)
def test_the_place_of_one_level_over_another(
    below: dict[str, Any], above: dict[str, Any], place: str
) -> None:
    """The bucket of a level counts under each of its names, and for its own kind of storage."""
    rules = offload_rules(merged(below, above), below)
    assert rules.place == place
    assert bool(rules.trouble) == (place == "")


@given(STRATEGIES[OFFLOAD], STRATEGIES[OFFLOAD])
def test_all_members_of_the_upper_level_stay(below: dict[str, Any], above: dict[str, Any]) -> None:
    found = merged(below, above)
    assert above.items() <= found.items()
    assert found.items() <= (below | above).items()
    assert merged(below, {}) == below and merged({}, above) == above


# Parts ------------------------------------------------------------------------------------------


def test_thresholds_are_members_with_paths_of_their_own() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, {OFFLOAD: S3}))
    world.do(found.set(NAMESPACE, {OFFLOAD_THRESHOLD: 5, OFFLOAD_THRESHOLD_SECONDS: 6}))
    world.do(found.set(NAMESPACE, {OFFLOAD_DELETION_LAG: 7}))
    assert world.do(explicit(found, OFFLOAD)) == S3 | {
        "managedLedgerOffloadThresholdInBytes": 5,
        "managedLedgerOffloadThresholdInSeconds": 6,
        "managedLedgerOffloadDeletionLagInMillis": 7,
    }
    world.do(found.set(NAMESPACE, {OFFLOAD: {**S3, "managedLedgerOffloadThresholdInBytes": 8}}))
    assert world.do(explicit(found, OFFLOAD_THRESHOLD)) == 8
    assert world.do(explicit(found, OFFLOAD_DELETION_LAG)) is None
    assert found.of_namespace(OFFLOAD_DELETION_LAG, NAMESPACE).value == 14_400_000


def test_without_its_last_member_the_policy_is_unset() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, {OFFLOAD_DELETION_LAG: 7}))
    world.do(found.set(NAMESPACE, {OFFLOAD_DELETION_LAG: None, OFFLOAD_THRESHOLD: None}))
    assert world.do(found.values_of(NAMESPACE)) == {}


def test_former_members_of_a_namespace_are_parts() -> None:
    document = {"offload_threshold": 5, "offload_deletion_lag_ms": 7, "offload_policies": S3}
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, values_in_policies_json(document, "here")))
    shown = world.do(policies_json(found, NAMESPACE, "here"))
    assert (shown["offload_threshold"], shown["offload_deletion_lag_ms"]) == (5, 7)
    assert shown["offload_policies"]["managedLedgerOffloadThresholdInBytes"] == 5


# Refusals and warnings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "members",
    [
        {"managedLedgerExtraConfigurations": {"s3ManagedLedgerOffloadCredentialSecret": "hush"}},
        {"managedLedgerOffloadServiceEndpoint": "https://user:hush@host"},
        {"s3ManagedLedgerOffloadServiceEndpoint": "https://user:hush@host"},
        {"fileSystemURI": "hdfs://user:hush@host/directory"},
    ],
    ids=lambda members: next(iter(members)),
)
def test_no_member_of_a_policy_holds_credentials(members: dict[str, Any]) -> None:
    """The check covers every kind of storage, and the error does not quote the secret."""
    with pytest.raises(OutOfRange, match="credentials") as refused:
        OFFLOAD.codec.decode(S3 | members)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_policy_holds_no_credentials(credential: str) -> None:
    with pytest.raises(OutOfRange, match="is a credential, which policies do not hold") as refused:
        OFFLOAD.codec.decode(S3 | {credential: "hush"})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({}, "is not a driver"),
        ({"managedLedgerOffloadDriver": "x"}, "'x' is not a driver: expected one of S3, aws-s3"),
        ({"managedLedgerOffloadDriver": "aws-s3"}, "needs a bucket"),
        (
            {"managedLedgerOffloadDriver": "azureblob", "s3ManagedLedgerOffloadBucket": "b"},
            "needs a",
        ),
        (S3 | {"s3ManagedLedgerOffloadServiceEndpoint": "host"}, "expected http"),
        (
            {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "hdfs://h"},
            "expected file",
        ),
        (S3 | {"s3ManagedLedgerOffloadServiceEndpoint": "http://127.0.0.1"}, "in broker.conf"),
        (
            {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///d"},
            "set fileSystemURI in broker.conf",
        ),
    ],
)
def test_members_that_do_not_go_together(members: dict[str, Any], why: str) -> None:
    assert OFFLOAD.check is not None
    with pytest.raises(OutOfRange, match=why):
        OFFLOAD.check(SETTINGS, OFFLOAD.codec.decode(members))


@pytest.mark.parametrize(
    "members",
    [
        S3,
        {"managedLedgerOffloadDriver": "Filesystem"},
        {"managedLedgerOffloadDriver": "S3", "managedLedgerOffloadBucket": "b"},
        S3 | {"managedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9000"},
    ],
)
def test_members_that_go_together(members: dict[str, Any]) -> None:
    assert OFFLOAD.check is not None
    OFFLOAD.check(SETTINGS, OFFLOAD.codec.decode(members))


def test_members_that_nobody_knows_are_left_out() -> None:
    sent = S3 | {"colour": "green", "s3Driver": True, "managedLedgerOffloadRegion": None}
    assert OFFLOAD.codec.decode(sent) == S3


def test_what_has_no_effect_is_told() -> None:
    assert warning(SETTINGS, S3) == ""
    assert warning(SETTINGS, S3 | IGNORED) == ""
    told = warning(SETTINGS, S3 | {"managedLedgerOffloadMaxThreads": 9})
    assert told.startswith("managedLedgerOffloadMaxThreads: stored without effect")
    files = {"managedLedgerOffloadDriver": "filesystem"}
    assert warning(SETTINGS, files).startswith("nothing is offloaded: the driver filesystem needs")
    assert warning(Settings(file_system_uri="file:///d"), files) == ""


@given(st.sampled_from(ReadPriority))
def test_what_is_read_first(priority: ReadPriority) -> None:
    decoded = OFFLOAD.codec.decode({"managedLedgerOffloadedReadPriority": str(priority)})
    assert offload_rules(decoded, {}).files_first == (priority is ReadPriority.DATA_DIRECTORY)


# Credentials and directories of the broker ------------------------------------------------------

ENDPOINTS = st.sampled_from(["", "http://a", "http://b", "https://a", "http://a/", "http://a/x"])
REGIONS = st.sampled_from(["", "eu-1", "a.b", "host/", "x@host", "host#", "host?", "host\n"])
DIRECTORIES = st.sampled_from(
    ["", "/", "/d", "file:///d/", "/d/e", "file:///d/%2e%2e/x", "/d/e/../../x", "/dx", "/e", "d"]
)
LOCATED: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "managedLedgerOffloadDriver": st.sampled_from(OffloadDriver),
        "managedLedgerOffloadBucket": st.just("b"),
        "s3ManagedLedgerOffloadBucket": st.just("b"),
        "gcsManagedLedgerOffloadBucket": st.just("b"),
        "managedLedgerOffloadServiceEndpoint": ENDPOINTS,
        "s3ManagedLedgerOffloadServiceEndpoint": ENDPOINTS,
        "s3ManagedLedgerOffloadRegion": REGIONS,
        "managedLedgerOffloadRegion": REGIONS,
        "fileSystemURI": DIRECTORIES,
    },
)
"""Members of a level that say where objects are, good ones and others."""


def directory_of(uri: str) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(unquote(uri.removeprefix("file://"))))


def endpoints_of(own: dict[str, Any], scheme: str) -> set[str]:
    """The endpoints of the settings to which the credentials of one kind may be sent."""
    found = {own.get("s3ManagedLedgerOffloadServiceEndpoint")} if scheme == "s3" else set()
    driver = own.get("managedLedgerOffloadDriver")
    if driver is not None and SCHEMES.get(driver) == scheme:
        found.add(own.get("managedLedgerOffloadServiceEndpoint"))
    return {one for one in found if one}


@settings(max_examples=examples(2000))
@given(LOCATED, LOCATED, LOCATED)
def test_credentials_and_directories_are_used_where_the_settings_say(
    own: dict[str, Any], namespace: dict[str, Any], topic: dict[str, Any]
) -> None:
    """Whatever is stored in policies, even before it was checked as it is now."""
    rules = offload_rules(merged(merged(own, namespace), topic), own)
    assert not (rules.place and rules.trouble)
    if not rules.place:
        return
    place = parse(rules.place)
    if place.scheme == "file":
        root = directory_of(own["fileSystemURI"])
        assert directory_of(place.prefix).is_relative_to(root) and root != PurePosixPath("/")
    else:
        providers_own = "endpoint" not in place.options
        allowed = endpoints_of(own, place.scheme)
        assert providers_own or place.options["endpoint"] in allowed
        assert place.options.get("region", "eu-1") == "eu-1"


@given(LOCATED, LOCATED)
def test_a_policy_that_is_accepted_is_in_effect(
    own: dict[str, Any], policy: dict[str, Any]
) -> None:
    """A refusal is what keeps a place from being used, so the two never disagree."""
    known = {FIELDS[member]: value for member, value in own.items() if member in FIELDS}
    try:
        check_offload(Settings(**known), policy)
    except OutOfRange:
        return
    trouble = offload_rules(merged(own, policy), own).trouble
    assert "service endpoint" not in trouble
    assert "the directory" not in trouble or "fileSystemURI" not in policy


def test_an_endpoint_of_an_earlier_setting_is_trouble() -> None:
    google = {"managedLedgerOffloadDriver": "google-cloud-storage"}
    bucket = {"gcsManagedLedgerOffloadBucket": "b"}
    policy = google | bucket | {"managedLedgerOffloadServiceEndpoint": "http://a"}
    allowed = google | {"managedLedgerOffloadServiceEndpoint": "http://a"}
    assert offload_rules(policy, allowed).place == "gs://b?endpoint=http://a"
    for own in (google, {}, S3 | {"managedLedgerOffloadServiceEndpoint": "http://a"}):
        rules = offload_rules(policy, own)
        assert rules.place == ""
        assert rules.trouble == (
            "the service endpoint http://a is not that of the broker's settings for "
            "google-cloud-storage, and credentials of the broker are sent to no other: set it in "
            "broker.conf, and leave it out of the policy"
        )


def test_directories_below_that_of_the_settings() -> None:
    own = {"fileSystemURI": "file:///d/"}
    for uri, is_allowed in (
        ("/d", True),
        ("file:///d/e", True),
        ("/dx", False),
        ("/", False),
        ("/d/../x", False),
        ("file:///d/%2e%2e/x", False),
    ):
        policy = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": uri}
        assert bool(offload_rules(policy, own).place) == is_allowed, uri
