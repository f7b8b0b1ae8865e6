"""Opening places: what is refused at once, and what directories and credentials do."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import object_servers
from magnetar_broker.server.object_stores import stores
from magnetar_broker.server.object_stores.credentials import Credentials
from magnetar_broker.server.object_stores.opening import open_objects, trouble_with
from magnetar_broker.server.object_stores.places import PlaceRefused
from magnetar_storage.errors import AccessDenied, NoObject, Unavailable
from magnetar_storage.objects.interfaces import Creation, Objects


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(moto: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return an endpoint whose credentials are in a file alone."""
    object_servers.use_credentials(monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    return moto


def test_without_obstore_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "obstore" or name.startswith(
            stores.__name__.rpartition(".")[0]
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(
        PlaceRefused, match=r"s3://b needs the package obstore: run pip install 'mag"
    ):
        open_objects("s3://b")
    assert trouble_with("s3://b").startswith("s3://b needs the package obstore: run pip install 'm")


def test_trouble_is_told_before_a_place_is_opened(tmp_path: Path) -> None:
    assert trouble_with("s3://b") == trouble_with(f"file://{tmp_path}") == ""
    assert "missing is not a directory: create it" in trouble_with(f"file://{tmp_path}/missing")
    assert "begins with s3://" in trouble_with("http://b")


def test_a_place_of_each_kind_is_opened_without_a_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    object_servers.use_credentials(monkeypatch)
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "aHVzaA==")
    for text in (
        "s3://bucket/prefix",
        "s3://bucket?endpoint=https://minio:9000&region=here",
        "gs://bucket/prefix?endpoint=https://example.com",
        "azure://container/prefix?account=acc&endpoint=http://127.0.0.1:10000/acc",
        f"file://{tmp_path}",
    ):
        assert repr(open_objects(text)) == f"ObstoreObjects({text})"


def test_settings_that_are_wrong_are_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "hush")
    with pytest.raises(
        PlaceRefused, match=r"gs://bucket cannot be opened .*begin with GOOGLE_"
    ) as e:
        open_objects("gs://bucket")
    assert "hush" not in str(e.value)
    assert e.value.__suppress_context__


def test_a_missing_key_file_is_refused(tmp_path: Path) -> None:
    credentials = Credentials(google_key_file=str(tmp_path / "key.json"))
    with pytest.raises(PlaceRefused, match=r"gs://b cannot be opened .* and the file of the acc"):
        open_objects("gs://b", credentials)


def test_a_directory_must_exist(tmp_path: Path) -> None:
    with pytest.raises(PlaceRefused, match="missing is not a directory: create it, or mount it"):
        open_objects(f"file://{tmp_path}/missing")


def test_a_directory_that_is_gone_has_no_missing_objects(tmp_path: Path) -> None:
    directory = tmp_path / "tier"
    directory.mkdir()
    objects = open_objects(f"file://{directory}")
    with pytest.raises(NoObject):
        objects.read("a", 0, 1)
    directory.rmdir()
    for ask in (objects.size, objects.tag, lambda name: objects.read(name, 0, 1)):
        with pytest.raises(Unavailable, match="the directory is not there: mount it"):
            ask("a")


WRITES: list[Callable[[Objects], object]] = [
    lambda objects: objects.create("a", [b"x"]),
    lambda objects: objects.replace("a", [b"x"], None),
    lambda objects: objects.upload("a", 1, lambda offset, size: b"x"),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_directory_that_is_gone_is_not_created_again(
    tmp_path: Path, write: Callable[[Objects], object]
) -> None:
    """Its file system was unmounted while the broker ran."""
    directory = tmp_path / "tier"
    directory.mkdir()
    objects = open_objects(f"file://{directory}")
    directory.rmdir()
    with pytest.raises(Unavailable, match="is not a directory: create it, or mount it"):
        write(objects)
    assert not directory.exists()
    directory.mkdir()
    write(objects)
    assert objects.read("a", 0, 1) == b"x"


@pytest.mark.parametrize("write", WRITES)
def test_a_mount_point_is_read_and_not_written(
    tmp_path: Path, write: Callable[[Objects], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").write_bytes(b"x")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path))
    text = f"file://{tmp_path}"
    why = f"{text} is a mount point, .* create a directory in it, such as {text}/objects"
    assert re.match(why, trouble_with(text))
    objects = open_objects(text)
    with pytest.raises(Unavailable, match=why):
        write(objects)
    assert objects.read("b", 0, 1) == b"x"
    objects.delete("b")
    assert not list(objects.list(""))


def test_what_is_written_to_a_directory_is_synced_with_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = stores._sync

    def seen(path: str) -> None:
        synced.append(path)
        sync(path)

    monkeypatch.setattr(stores, "_sync", seen)
    objects = open_objects(f"file://{tmp_path}")
    writes: list[Callable[[str], object]] = [
        lambda name: objects.create(name, [b"x"]),
        lambda name: objects.replace(name, [b"x"], None),
        lambda name: objects.upload(name, 1, lambda offset, size: b"x"),
        lambda name: objects.upload(name, 9 << 20, lambda offset, size: bytes(size)),
    ]
    for number, write in enumerate(writes):
        synced.clear()
        write(f"{number}/b/c")
        root = str(tmp_path)
        assert synced == [f"{root}/{number}/b/c", f"{root}/{number}/b", f"{root}/{number}", root]


def test_a_creation_that_the_file_system_refuses_says_why(tmp_path: Path) -> None:
    objects = open_objects(f"file://{tmp_path}")
    assert objects.create("a", [b"x"]) is Creation.CREATED
    with pytest.raises(Unavailable, match="a part of the name is a file"):
        objects.create("a/b", [b"x"])


def test_a_sync_that_fails_leaves_the_outcome_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise Unavailable(f"cannot sync {path}: Input/output error")

    monkeypatch.setattr(stores, "_sync", fail)
    objects = open_objects(f"file://{tmp_path}")
    assert objects.create("a", [b"x"]) is Creation.UNKNOWN
    with pytest.raises(Unavailable, match=r"cannot sync .*/b: Input/output error"):
        objects.upload("b", 1, lambda offset, size: b"x")


def test_the_credentials_of_a_file_are_used(endpoint: str) -> None:
    objects = open_objects(object_servers.place_at(endpoint, "p"))
    assert objects.create("a", [b"x"]) is Creation.CREATED
    assert objects.read("a", 0, 9) == b"x"


def test_a_file_of_credentials_that_goes_away_denies_access(endpoint: str, tmp_path: Path) -> None:
    objects = open_objects(object_servers.place_at(endpoint, "p"))
    (tmp_path / "credentials").unlink()
    with pytest.raises(AccessDenied, match="access was denied"):
        objects.read("a", 0, 9)
