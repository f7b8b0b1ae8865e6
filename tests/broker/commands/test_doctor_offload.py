"""`magnetar doctor` uses the store of objects as a broker does, and leaves nothing there."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import object_servers
from fakes.faulty_objects import FaultyObjects
from magnetar_broker.commands.checks import offload
from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_storage.errors import AccessDenied, NoObject


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    object_servers.use_credentials(monkeypatch)
    return moto


def at(endpoint: str, bucket: str = object_servers.BUCKET) -> Settings:
    return replace(
        Settings(),
        managed_ledger_offload_driver=OffloadDriver.AWS_S3,
        managed_ledger_offload_auto_trigger_size_threshold_bytes=0,
        s3_managed_ledger_offload_bucket=f"{bucket}/doctor",
        s3_managed_ledger_offload_region="us-east-1",
        s3_managed_ledger_offload_service_endpoint=endpoint,
    )


def in_directory(directory: Path, **more: object) -> Settings:
    return replace(
        Settings(),
        managed_ledger_offload_driver=OffloadDriver.FILES,
        file_system_uri=f"file://{directory}",
        **more,  # type: ignore[arg-type]
    )


def texts(found: Iterator[Finding]) -> list[tuple[str, str]]:
    findings = list(found)
    assert all(one.remedy or one.level == "ok" for one in findings)
    return [(one.level, one.text) for one in findings]


def test_without_a_driver_nothing_is_checked() -> None:
    assert texts(offload.check(Settings())) == []


def test_a_bucket_that_can_be_used(endpoint: str) -> None:
    ((level, text),) = texts(offload.check(at(endpoint)))
    assert level == "ok"
    place = object_servers.place_at(endpoint, "doctor")
    assert text.startswith(f"{place}: an object was written, read, listed and deleted in ")
    assert list(open_objects(place).list("")) == []


@pytest.mark.parametrize(
    ("bucket", "port", "why"),
    [
        ("missing", "", "the bucket does not exist (404 NoSuchBucket): create it"),
        ("bucket", "9", "nothing accepts connections at the endpoint"),
    ],
)
def test_a_bucket_that_cannot_be_used(endpoint: str, bucket: str, port: str, why: str) -> None:
    host, _, usual = endpoint.rpartition(":")
    ((level, text),) = texts(offload.check(at(f"{host}:{port or usual}", bucket)))
    assert level == "error"
    assert why in text


def test_without_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "obstore" or "object_stores.stores" in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "obstore", None)
    ((level, text),) = texts(offload.check(at("http://127.0.0.1:9")))
    assert level == "error"
    assert "needs the package obstore: run pip install 'magnetar[s3]'" in text


def test_a_directory_that_saves_no_room_and_is_used_by_request_only(tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    settings = in_directory(objects, data_dir=str(tmp_path))
    ((level, text),) = texts(offload.check(settings))
    assert (level, "objects is not a directory: create it, or mount it" in text) == ("error", True)
    objects.mkdir()
    found = texts(offload.check(settings))
    assert [level for level, _ in found] == ["ok", "note", "warning"]
    assert "no threshold is set" in found[1][1]
    assert "is on the same file system as" in found[2][1]
    assert list(objects.iterdir()) == []


class Denying(FaultyObjects):
    """A bucket whose user must not do something."""

    def __init__(self, denied: str) -> None:
        super().__init__()
        self._denied = denied

    def read(self, name: str, offset: int, size: int) -> bytes:
        if self._denied == "read":
            raise AccessDenied("reading is denied")
        try:
            return super().read(name, offset, size)
        except NoObject:
            if self._denied == "list":
                raise AccessDenied("access was denied") from None
            if self._denied == "delete":
                return b"x"
            raise


def test_a_missing_object_that_looks_denied(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    objects = Denying("list")
    monkeypatch.setattr(offload, "open_objects", lambda *_: objects)
    found = texts(offload.check(at(endpoint)))
    assert [level for level, _ in found] == ["ok", "warning"]
    assert "access to an object that is missing is denied" in found[1][1]


@pytest.mark.parametrize(
    ("denied", "why"), [("read", "reading is denied"), ("delete", "although it was deleted")]
)
def test_nothing_is_left_where_something_is_denied(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, denied: str, why: str
) -> None:
    objects = Denying(denied)
    monkeypatch.setattr(offload, "open_objects", lambda *_: objects)
    ((level, text),) = texts(offload.check(at(endpoint)))
    assert (level, why in text) == ("error", True)
    assert list(objects.list("")) == []


def test_bytes_that_are_other_ones(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    objects = FaultyObjects()
    monkeypatch.setattr(offload, "open_objects", lambda *_: objects)
    monkeypatch.setattr(objects, "read", lambda *_: b"other")
    ((level, text),) = texts(offload.check(at(endpoint)))
    assert (level, "has other bytes than those" in text) == ("error", True)
