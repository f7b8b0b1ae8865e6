"""The text of the place that ledgers are offloaded to, from settings and members of policies."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.config.load import ConfigError, interpret
from magnetar_broker.config.offload_places import (
    MEMBERS,
    SCHEMES,
    driver_named,
    place_among,
    place_of,
)
from magnetar_broker.config.settings import KEYS, Settings
from magnetar_broker.config.values import HIDDEN
from magnetar_broker.server.object_stores.places import parse

S3 = {"managedLedgerOffloadDriver": "aws-s3"}


@pytest.mark.parametrize(
    ("driver", "more", "place"),
    [
        ("aws-s3", {"bucket": "b"}, "s3://b"),
        (
            "S3",
            {"bucket": "b/some/prefix/", "region": "eu-west-1"},
            "s3://b/some/prefix?region=eu-west-1",
        ),
        (
            "aws-s3",
            {"bucket": "b", "region": "r", "endpoint": "http://127.0.0.1:9000"},
            "s3://b?endpoint=http://127.0.0.1:9000&region=r",
        ),
        ("google-cloud-storage", {"bucket": "b/p"}, "gs://b/p"),
        ("azureblob", {"bucket": "c", "account": "a"}, "azure://c?account=a"),
        ("filesystem", {"uri": "file:///mnt/cold/"}, "file:///mnt/cold"),
        ("filesystem", {"uri": "/mnt/cold"}, "file:///mnt/cold"),
        ("filesystem", {"uri": "/mnt/a b?"}, "file:///mnt/a%20b%3F"),
        ("filesystem", {"uri": "file:///mnt/a%20b"}, "file:///mnt/a%20b"),
        ("filesystem", {"uri": "file://localhost/mnt"}, "file:///mnt"),
    ],
)
def test_places(driver: str, more: dict[str, str], place: str) -> None:
    assert place_of(OffloadDriver(driver), **more) == place


@pytest.mark.parametrize(
    ("driver", "more", "why"),
    [
        ("aws-s3", {}, "needs a bucket"),
        ("azureblob", {"bucket": "/"}, "needs a bucket"),
        ("aws-s3", {"bucket": "b", "endpoint": "127.0.0.1:9000"}, "expected http"),
        ("aws-s3", {"bucket": "b", "endpoint": "http://[::1"}, "not a URL"),
        ("aws-s3", {"bucket": "b", "endpoint": "ftp://host"}, "expected http"),
        ("filesystem", {}, "needs fileSystemURI"),
        ("filesystem", {"uri": "hdfs://host:9000"}, "expected file:///"),
        ("filesystem", {"uri": "file://host/share"}, "expected file:///"),
        ("filesystem", {"uri": "relative"}, "expected file:///"),
        ("filesystem", {"uri": "file:///"}, "expected file:///"),
        ("filesystem", {"uri": "file:///d?x=1"}, "expected file:///"),
        ("filesystem", {"uri": "file://[::1"}, "expected file:///"),
        ("aws-s3", {"bucket": "b", "endpoint": "http://host?x=1"}, "expected http"),
        ("aws-s3", {"bucket": "b c"}, "is not a bucket"),
        ("google-cloud-storage", {"bucket": "b//p"}, "is not a bucket"),
        ("azureblob", {"bucket": "b/../p"}, "is not a bucket"),
        ("azureblob", {"bucket": ".."}, "is not a bucket"),
        ("aws-s3", {"bucket": "b", "region": "host/"}, "'host/' is not a region: expected a name"),
    ],
)
def test_values_that_name_no_place(driver: str, more: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        place_of(OffloadDriver(driver), **more)


def test_credentials_are_never_a_part_of_a_place() -> None:
    with pytest.raises(ValueError, match="credentials") as refused:
        place_of(OffloadDriver.S3, "b", endpoint="https://user:secret@host")
    assert "secret" not in str(refused.value)


PREFIXES = st.lists(st.text(min_size=1).filter(lambda part: "/" not in part), max_size=3)


@given(
    st.sampled_from([one for one in OffloadDriver if one is not OffloadDriver.FILES]),
    PREFIXES,
    st.from_regex(r"([-\w]*)", fullmatch=True, alphabet=st.characters(max_codepoint=127)),
)
def test_every_place_is_one_that_stores_are_opened_by(
    driver: OffloadDriver, prefix: list[str], region: str
) -> None:
    assume(not {".", ".."} & {*prefix})
    is_s3 = SCHEMES[driver] == "s3"
    place = parse(place_of(driver, "/".join(("b", *prefix)), region if is_s3 else ""))
    assert (place.scheme, place.bucket) == (SCHEMES[driver], "b")
    assert place.prefix == "/".join(prefix)
    assert place.options == ({"region": region} if is_s3 and region else {})


@given(PREFIXES.filter(bool))
def test_every_directory_is_a_place_too(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    place = parse(place_of(OffloadDriver.FILES, uri=path))
    assert (place.scheme, place.prefix) == ("file", path)


@pytest.mark.parametrize("name", ["aws-s3", "AWS-S3", "s3", "Filesystem"])
def test_names_of_drivers_have_no_case(name: str) -> None:
    assert driver_named(name).lower() == name.lower()


def test_an_unknown_driver() -> None:
    with pytest.raises(ValueError, match="expected one of S3, aws-s3"):
        driver_named("aliyun-oss")


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({}, ""),
        ({"managedLedgerOffloadBucket": "b"}, ""),
        (S3 | {"managedLedgerOffloadBucket": "b"}, "s3://b"),
        (S3 | {"managedLedgerOffloadBucket": "b", "s3ManagedLedgerOffloadBucket": "c"}, "s3://c"),
        (
            S3 | {"s3ManagedLedgerOffloadBucket": "c", "managedLedgerOffloadRegion": "r"},
            "s3://c?region=r",
        ),
        (
            {
                "managedLedgerOffloadDriver": "google-cloud-storage",
                "gcsManagedLedgerOffloadBucket": "c",
                "gcsManagedLedgerOffloadRegion": "r",
            },
            "gs://c",
        ),
        ({"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///d"}, "file:///d"),
    ],
)
def test_places_among_members(members: dict[str, Any], place: str) -> None:
    assert place_among(members, members) == place


def test_the_settings_of_the_members_exist() -> None:
    assert set(MEMBERS) <= set(KEYS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("managedLedgerOffloadDriver=aws-s3", "managedLedgerOffloadDriver=aws-s3: the driver"),
        ("managedLedgerOffloadDriver=filesystem\nfileSystemURI=hdfs://x", "expected file:///"),
        (
            "s3ManagedLedgerOffloadCredentialId=key",
            "CredentialSecret=: s3ManagedLedgerOffloadCredentialId",
        ),
        (
            "s3ManagedLedgerOffloadCredentialSecret=hush",
            "CredentialId=: s3ManagedLedgerOffloadCredentialSecret",
        ),
        ("managedLedgerOffloadDriver=aliyun-oss", "expected S3 or aws-s3"),
        ("managedLedgerOffloadDeletionLagMs=-2", "expected a whole number from -1"),
    ],
)
def test_settings_with_which_nothing_could_be_offloaded(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        interpret("broker.conf", text, {}, {})
    assert problem in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_store_of_objects_in_the_settings() -> None:
    text = "managedLedgerOffloadDriver=aws-s3\ns3ManagedLedgerOffloadBucket=b\n"
    settings, warnings = interpret("broker.conf", text, {}, {})
    assert (settings.managed_ledger_offload_driver, warnings) == (OffloadDriver.AWS_S3, [])


def test_credentials_are_not_shown() -> None:
    for name in ("id", "secret"):
        assert KEYS[f"s3_managed_ledger_offload_credential_{name}"].shown("hush") == HIDDEN


def test_nothing_is_offloaded_by_default() -> None:
    settings = Settings()
    assert settings.managed_ledger_offload_driver is None
    assert settings.managed_ledger_offload_auto_trigger_size_threshold_bytes == -1
    assert settings.managed_ledger_offload_threshold_in_seconds == -1


def test_the_settings_of_the_original_for_its_offloaders_are_known() -> None:
    text = "offloadersDirectory=/x\ngcsManagedLedgerOffloadRegion=eu\nfileSystemProfilePath=/y\n"
    _, warnings = interpret("broker.conf", text, {}, {})
    assert warnings == [
        "known to Pulsar and without effect here: fileSystemProfilePath, "
        "gcsManagedLedgerOffloadRegion, offloadersDirectory"
    ]
