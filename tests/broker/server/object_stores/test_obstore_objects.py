"""The driver on a server that answers as S3 does in bad moments."""

import socket
from collections.abc import Callable, Iterator

import pytest

import object_servers
from broker.server.object_stores.scripted import LOST, SECRET_IN_ANSWER, Answer, Scripted, scripted
from fakes.world import InlineWorker, ManualClock, start
from magnetar_broker.server.object_stores.credentials import Credentials
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.server.object_stores.time_limits import TimeLimits
from magnetar_storage.errors import (
    AccessDenied,
    ConditionsNotKept,
    NoObject,
    ObjectChanged,
    Unavailable,
)
from magnetar_storage.objects.creation import NONCE_BYTES, create_once
from magnetar_storage.objects.interfaces import Creation, Objects
from ports import free_ports

STORED = Answer(200, headers=(("ETag", '"t1"'),))
META = (("ETag", '"t1"'), ("Last-Modified", "Sat, 28 Nov 2026 14:00:00 GMT"))
"""The headers of every answer with an object."""
BEGUN = Answer(
    200,
    body=b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>",
)
NO_RETRIES = TimeLimits(retries=0)
NONCE = b"n" * NONCE_BYTES


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    object_servers.use_credentials(monkeypatch)
    with scripted() as server:
        yield server


def opened(server: Scripted, *answers: Answer, limits: TimeLimits = NO_RETRIES) -> Objects:
    server.answers.extend(answers)
    return open_objects(object_servers.place_at(server.endpoint, "p"), limits=limits)


def part(data: bytes, start: int, size: int) -> Answer:
    """Return the answer to a read of a part."""
    where = f"bytes {start}-{start + len(data) - 1}/{size}"
    return Answer(206, headers=(("Content-Range", where), *META), body=data)


@pytest.mark.parametrize(
    ("answer", "creation"),
    [
        (STORED, Creation.CREATED),
        (Answer(412, "PreconditionFailed"), Creation.EXISTS),
        # S3 stores nothing then, and obstore says that the object exists.
        (Answer(409, "ConditionalRequestConflict"), Creation.EXISTS),
        (Answer(500, "InternalError"), Creation.UNKNOWN),
        (Answer(503, "SlowDown"), Creation.UNKNOWN),
        (Answer(429, "TooManyRequests"), Creation.UNKNOWN),
        (Answer(408, "RequestTimeout"), Creation.UNKNOWN),
        (LOST, Creation.UNKNOWN),
    ],
)
def test_answers_to_a_creation(server: Scripted, answer: Answer, creation: Creation) -> None:
    # Retries would be seen: a condition is sent once, whatever the limits are.
    objects = opened(server, answer, limits=TimeLimits())
    assert objects.create("a", [b"x"]) is creation
    assert server.requests == ["PUT /bucket/p/a"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(404, "NoSuchBucket"), r"the bucket does not exist \(404 NoSuchBucket\)"),
        (Answer(400, "AuthorizationHeaderMalformed"), "the bucket is in another region"),
        (Answer(405, "MethodNotAllowed"), "the answer was 405 MethodNotAllowed"),
        (Answer(404), "check the endpoint and the name of the bucket"),
    ],
)
def test_a_creation_that_is_refused_says_why(server: Scripted, answer: Answer, words: str) -> None:
    """Otherwise its outcome would be unknown for ever."""
    objects = opened(server, answer, limits=TimeLimits())
    with pytest.raises(Unavailable, match=words):
        objects.create("a", [b"x"])
    assert server.requests == ["PUT /bucket/p/a"]


def test_a_store_without_conditions_is_told_apart(server: Scripted) -> None:
    objects = opened(server, Answer(501, "NotImplemented"), Answer(501, "NotImplemented"))
    with pytest.raises(ConditionsNotKept, match="only if its name is free"):
        objects.create("a", [b"x"])
    with pytest.raises(ConditionsNotKept, match="by its tag"):
        objects.replace("a", [b"x"], "tag t")


def test_a_bucket_that_is_created_meanwhile_ends_the_attempts(server: Scripted) -> None:
    objects = opened(server, Answer(404, "NoSuchBucket"), STORED)
    clock = ManualClock()
    created = start(create_once(objects, InlineWorker(clock), clock, "a", NONCE, [b"x"], 60))
    clock.pump()
    clock.advance(1)
    assert created.result()


def test_a_bucket_that_stays_missing_is_reported(server: Scripted) -> None:
    objects = opened(server)
    server.otherwise = Answer(404, "NoSuchBucket")
    clock = ManualClock()
    created = start(create_once(objects, InlineWorker(clock), clock, "a", NONCE, [b"x"], 60))
    while not created.done():
        clock.advance(1)
        clock.pump()
    with pytest.raises(Unavailable, match="the bucket does not exist"):
        created.result()


def test_a_conflict_is_tried_again_until_the_object_is_there(server: Scripted) -> None:
    missing = Answer(404, "NoSuchKey")
    conflict = Answer(409, "ConditionalRequestConflict")
    objects = opened(server, conflict, missing, STORED)
    clock = ManualClock()
    created = start(create_once(objects, InlineWorker(clock), clock, "a", NONCE, [b"x"], 60))
    clock.pump()
    assert not created.done()
    clock.advance(1)
    assert created.result()
    assert server.requests == ["PUT /bucket/p/a", "GET /bucket/p/a", "PUT /bucket/p/a"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "AccessDenied"),
        (400, "ExpiredToken"),
        (403, "RequestTimeTooSkewed"),
        (401, "Whatever"),
    ],
)
def test_refused_credentials_are_reported_with_the_remedy(
    server: Scripted, status: int, code: str
) -> None:
    objects = opened(server)
    asks: list[Callable[[], object]] = [
        lambda: objects.create("a", [b"x"]),
        lambda: objects.replace("a", [b"x"], "tag t"),
        lambda: objects.read("a", 0, 1),
        lambda: objects.upload("a", 1, lambda offset, size: b"x"),
        lambda: objects.delete("a"),
        lambda: list(objects.list("")),
    ]
    for ask in asks:
        server.answers.append(Answer(status, code))
        with pytest.raises(
            AccessDenied, match=rf"access was denied \({status} {code}\): check"
        ) as e:
            ask()
        assert "s3ManagedLedgerOffloadCredentialSecret, AWS_ACCESS_KEY_ID and" in str(e.value)
        assert SECRET_IN_ANSWER not in f"{e.value!r} {e.value.__cause__!r}"
        assert e.value.__suppress_context__  # the text of obstore has the whole answer


@pytest.mark.parametrize("code", ["NoSuchBucket", "XAdminUserUnknown", ""])
def test_only_an_answer_that_says_so_means_a_missing_object(server: Scripted, code: str) -> None:
    objects = opened(server)
    for ask in (objects.size, objects.tag):
        # The answer to HEAD has no code: it is asked for again by a read.
        server.answers.extend([Answer(404), Answer(404, "NoSuchKey")])
        with pytest.raises(NoObject):
            ask("a")
        server.answers.extend([Answer(404), Answer(404, code)])
        with pytest.raises(Unavailable):
            ask("a")
    server.answers.append(Answer(404, code))
    with pytest.raises(Unavailable, match="404"):
        objects.read("a", 0, 1)
    server.answers.append(Answer(404, code))
    with pytest.raises(Unavailable, match="404"):
        objects.delete("a")
    assert not server.answers


def test_an_object_that_appears_between_two_requests(server: Scripted) -> None:
    head = Answer(200, headers=META, body=b"sevenby")
    objects = opened(server, Answer(404), part(b"x", 0, 7), head)
    assert objects.size("a") == 7
    server.answers.extend([Answer(404), part(b"x", 0, 7), Answer(404), part(b"x", 0, 7)])
    with pytest.raises(Unavailable, match="object a is being written"):
        objects.size("a")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (part(b"0123456789", 0, 10)._replace(cut=True), "the answer was cut off"),
        (Answer(500, "InternalError"), "the answer was 500 InternalError"),
        (Answer(503, "SlowDown"), "the answer was 503 SlowDown"),
        (
            Answer(400, "AuthorizationHeaderMalformed"),
            r"in another region .*name it with \?region=",
        ),
        (Answer(301, "PermanentRedirect"), "in another region"),
        (Answer(502), "the answer was 502"),
        (LOST, "the connection was closed before the answer"),
        # A server that does not know ranges sends everything.
        (Answer(200, headers=META, body=b"0123456789"), "not the part that"),
    ],
)
def test_a_read_that_fails_says_why(server: Scripted, answer: Answer, words: str) -> None:
    objects = opened(server, answer)
    with pytest.raises(Unavailable, match=words) as caught:
        objects.read("a", 0, 10)
    assert type(caught.value) is Unavailable
    assert str(caught.value).startswith(
        f"s3://bucket/p?endpoint={server.endpoint}&region=us-east-1"
    )
    assert SECRET_IN_ANSWER not in str(caught.value)


def test_reads_are_repeated(server: Scripted) -> None:
    objects = opened(server, Answer(503, "SlowDown"), part(b"01", 0, 2), limits=TimeLimits())
    assert objects.read("a", 0, 2) == b"01"


@pytest.mark.parametrize("answer", [Answer(412, "PreconditionFailed"), Answer(409, "Conflict")])
def test_a_replacement_that_is_refused(server: Scripted, answer: Answer) -> None:
    objects = opened(server, answer)
    with pytest.raises(ObjectChanged, match="object a was not replaced"):
        objects.replace("a", [b"x"], 'tag "t0"')


def test_a_replacement_is_sent_once(server: Scripted) -> None:
    objects = opened(server, Answer(500, "InternalError"), STORED, limits=TimeLimits())
    with pytest.raises(Unavailable, match="cannot replace object a: the answer was 500"):
        objects.replace("a", [b"x"], None)
    assert server.requests == ["PUT /bucket/p/a"]


def test_a_store_without_tags_is_told_apart(server: Scripted) -> None:
    objects = opened(server, Answer(200, headers=META[1:], body=b"x"))
    with pytest.raises(ConditionsNotKept, match="object a has no tag"):
        objects.tag("a")


def test_an_upload_that_fails_is_given_up(server: Scripted) -> None:
    server.otherwise = Answer(403, "AccessDenied")  # to parts that are in flight at once
    objects = opened(server, BEGUN)
    with pytest.raises(AccessDenied):
        objects.upload("a", 20 << 20, lambda offset, size: bytes(size))
    assert server.requests[0] == "POST /bucket/p/a?uploads="
    assert "DELETE /bucket/p/a?uploadId=u1" in server.requests


def test_the_error_of_the_reader_is_raised_even_if_giving_up_fails(server: Scripted) -> None:
    def read(offset: int, size: int) -> bytes:
        raise OSError("the disk cannot be read")

    objects = opened(server, BEGUN, Answer(403, "AccessDenied"))
    with pytest.raises(OSError, match="the disk cannot be read"):
        objects.upload("a", 20 << 20, read)


def test_an_endpoint_that_is_away(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    objects = open_objects(
        object_servers.place_at(f"http://127.0.0.1:{port}", "p"), limits=NO_RETRIES
    )
    with pytest.raises(Unavailable, match="nothing accepts connections at the endpoint"):
        objects.read("a", 0, 1)
    with pytest.raises(Unavailable, match="nothing accepts connections at the endpoint"):
        objects.create("a", [b"x"])


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    object_servers.use_credentials(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = object_servers.place_at(f"http://127.0.0.1:{silent.getsockname()[1]}", "p")
        objects = open_objects(place, limits=TimeLimits(request_seconds=0.1, retries=0))
        with pytest.raises(Unavailable, match="there was no answer in time"):
            objects.read("a", 0, 1)
        assert objects.create("a", [b"x"]) is Creation.UNKNOWN


def test_a_listing_that_fails_on_its_second_page(server: Scripted) -> None:
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
        b"</NextContinuationToken><Contents><Key>p/a</Key><Size>1</Size><ETag>e</ETag>"
        b"<LastModified>2026-11-28T14:00:00.000Z</LastModified></Contents></ListBucketResult>"
    )
    objects = opened(server, Answer(200, body=page), Answer(503, "SlowDown"))
    listed = objects.list("")
    with pytest.raises(
        Unavailable, match="cannot list objects under the place: the answer was 503"
    ):
        list(listed)


def test_a_machine_without_credentials(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.endpoint)
    objects = opened(server, Answer(403))
    with pytest.raises(
        AccessDenied, match="there are no credentials: set s3ManagedLedgerOffloadCr"
    ):
        objects.read("a", 0, 1)
    assert server.requests == ["PUT /latest/api/token"]


def test_given_credentials_precede_those_of_the_environment(server: Scripted) -> None:
    place = object_servers.place_at(server.endpoint, "p")
    server.answers.extend([STORED, STORED])
    credentials = Credentials("given", "hush")
    objects = open_objects(place, credentials)
    assert objects.create("a", [b"x"]) is Creation.CREATED
    assert open_objects(place).create("a", [b"x"]) is Creation.CREATED
    assert server.keys == ["given", object_servers.KEY]
    assert "hush" not in f"{credentials!r} {credentials} {objects!r} {vars(objects)}"


def test_the_representation_is_the_place(server: Scripted) -> None:
    objects = opened(server)
    assert repr(objects) == f"ObstoreObjects({object_servers.place_at(server.endpoint, 'p')})"
    assert object_servers.SECRET not in repr(vars(objects))
