"""Settings of data in a store of objects."""

import pytest

from magnetar_broker.config.load import ConfigError, interpret
from magnetar_broker.config.settings import KEYS
from magnetar_broker.config.values import HIDDEN

POSTGRES = "metadataStoreUrl=postgres://magnetar:s3cret@db:5432/names"
PLACE = "magnetarSegmentStore=s3://bucket/prefix?region=eu-west-1"


def read(*lines: str) -> list[str]:
    """Return the warnings of the start with these lines."""
    return interpret("a.conf", "\n".join(lines), {}, {}).warnings


def refused(*lines: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        read(*lines)
    return str(refusal.value)


@pytest.mark.parametrize(
    "url", ["etcd:https://a:2379,https://b:2379", "postgres://db/names", "postgresql://db/names"]
)
def test_both_stores_are_accepted(url: str) -> None:
    assert read(f"metadataStoreUrl={url}", PLACE) == []


def test_one_store_alone_is_refused() -> None:
    assert "metadataStoreUrl=*****: messages need a store as well" in refused(POSTGRES)
    text = refused(PLACE)
    assert "a.conf:1: magnetarSegmentStore=s3://bucket/prefix?region=eu-west-1: " in text
    assert "set metadataStoreUrl to etcd:" in text
    assert "set metadataStoreUrl to etcd:" in refused("metadataStoreUrl=zk:localhost:2181", PLACE)


def test_a_directory_is_no_store_of_all_data() -> None:
    text = refused(POSTGRES, "magnetarSegmentStore=file:///mnt/objects")
    assert "a.conf:2: magnetarSegmentStore=file:///mnt/objects: a directory does not keep" in text


@pytest.mark.parametrize(
    "line",
    ["magnetarWorkers=3", "magnetarWorkers=auto", "magnetarDurability=relaxed"],
)
def test_what_cannot_be_used_with_it_is_refused(line: str) -> None:
    assert f"a.conf:3: {line}: " in refused(POSTGRES, PLACE, line)


@pytest.mark.parametrize(("given", "missing"), [("Key", "Certificate"), ("Certificate", "Key")])
def test_a_certificate_needs_its_key(given: str, missing: str) -> None:
    text = refused(POSTGRES, PLACE, f"magnetarMetadata{given}FilePath=/a.pem")
    assert f"default: magnetarMetadata{missing}FilePath=: magnetarMetadata{given}FilePath" in text


def test_ledgers_in_a_store_of_objects_are_not_offloaded() -> None:
    offload = "managedLedgerOffloadDriver=aws-s3", "s3ManagedLedgerOffloadBucket=b"
    assert "a.conf:3: managedLedgerOffloadDriver=aws-s3: " in refused(POSTGRES, PLACE, *offload)


@pytest.mark.parametrize("url", ["zk:user:s3cret@localhost:2181", "oxia://host", "rocksdb:/data"])
def test_another_store_of_metadata_is_a_warning_without_its_url(url: str) -> None:
    scheme = url.partition(":")[0]
    assert read(f"metadataStoreUrl={url}") == [
        f"metadataStoreUrl={scheme}:... is not built yet: this broker is on its own, with its "
        "metadata in magnetarDataDirectory"
    ]


def test_a_password_in_the_url_is_hidden() -> None:
    assert "s3cret" not in refused(POSTGRES)
    assert KEYS["metadata_store_url"].shown("postgres://u:s3cret@db") == HIDDEN
