"""The contract of `Objects` on versitygw, a server of S3 that keeps the conditions of writes."""

import itertools
from collections.abc import Iterator

import pytest

import object_servers
from fakes.world import ManualClock, run
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_storage.errors import AccessDenied, Unavailable
from magnetar_storage.objects.creation import NONCE_BYTES, create_once
from magnetar_storage.objects.interfaces import Objects
from storage.objects.conformance import Conformance, racing
from storage.objects.real_threads import RealThread

NUMBERS = itertools.count()

if WHY := object_servers.why_no_versitygw():
    pytest.skip(WHY, allow_module_level=True)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as endpoint:
        yield endpoint


@pytest.fixture
def objects(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Objects:
    object_servers.use_credentials(monkeypatch)
    return open_objects(object_servers.place_at(endpoint, f"test/{next(NUMBERS)}"))


class TestVersitygw(Conformance):
    """Everything, and races of many threads."""


def test_a_listing_has_several_pages(objects: Objects) -> None:
    names = [f"many/{number:04d}" for number in range(1100)]
    racing(8, lambda thread: [objects.create(name, [b"x"]) for name in names[thread::8]])
    assert sorted(found.name for found in objects.list("many/")) == names


def test_creators_by_nonce_agree_on_the_winner(objects: Objects) -> None:
    def create(number: int) -> bool:
        nonce = bytes([number]) * NONCE_BYTES
        clock = ManualClock()
        return run(create_once(objects, RealThread(), clock, name, nonce, [b"data"], 60), clock)

    for turn in range(20):
        name = f"turn/{turn}"
        won = racing(16, create)
        assert sum(won) == 1
        assert objects.read(name, 0, NONCE_BYTES) == bytes([won.index(True)]) * NONCE_BYTES


def test_a_missing_bucket_is_not_a_missing_object(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_servers.use_credentials(monkeypatch)
    place = object_servers.place_at(endpoint, "a").replace("//bucket/", "//other/")
    objects = open_objects(place)
    for ask in (objects.size, objects.tag, lambda name: objects.read(name, 0, 1), objects.delete):
        with pytest.raises(Unavailable, match="the bucket does not exist"):
            ask("a")
    with pytest.raises(Unavailable, match="the bucket does not exist"):
        list(objects.list(""))


@pytest.mark.parametrize(("name", "value"), [("KEY_ID", "nobody"), ("SECRET", "wrong")])
def test_wrong_credentials_are_refused_and_not_shown(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    object_servers.use_credentials(monkeypatch)
    variable = {"KEY_ID": "AWS_ACCESS_KEY_ID", "SECRET": "AWS_SECRET_ACCESS_KEY"}[name]
    monkeypatch.setenv(variable, value)
    objects = open_objects(object_servers.place_at(endpoint, "a"))
    for ask in (
        lambda: objects.create("a", [b"x"]),
        lambda: objects.replace("a", [b"x"], None),
        lambda: objects.read("a", 0, 1),
        lambda: objects.size("a"),
        lambda: objects.delete("a"),
        lambda: list(objects.list("")),
    ):
        with pytest.raises(AccessDenied, match=r"access was denied \(40[34]") as caught:
            ask()
        assert value not in str(caught.value)
        assert object_servers.SECRET not in str(caught.value)
