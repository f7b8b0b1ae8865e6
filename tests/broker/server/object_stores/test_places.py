"""The texts of places: their parts, and what is refused."""

import pytest

from magnetar_broker.server.object_stores.places import Place, PlaceRefused, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket", ("s3", "bucket", "", {})),
        ("s3://bucket/", ("s3", "bucket", "", {})),
        ("s3://bucket/a/b/?region=eu-west-1", ("s3", "bucket", "a/b", {"region": "eu-west-1"})),
        (
            "s3://b/p?endpoint=https://minio:9000&region=x",
            ("s3", "b", "p", {"endpoint": "https://minio:9000", "region": "x"}),
        ),
        (
            "s3://b?endpoint=http%3A%2F%2F127.0.0.1%3A9000",
            ("s3", "b", "", {"endpoint": "http://127.0.0.1:9000"}),
        ),
        ("gs://bucket/a%20b", ("gs", "bucket", "a b", {})),
        ("azure://container/p?account=acc", ("azure", "container", "p", {"account": "acc"})),
        ("file:///var/lib/tier", ("file", "", "/var/lib/tier", {})),
        ("file://localhost/tier/", ("file", "", "/tier", {})),
        ("file:///a%20b", ("file", "", "/a b", {})),
    ],
)
def test_a_place_has_parts(text: str, expected: tuple[str, str, str, dict[str, str]]) -> None:
    assert parse(text) == Place(text, *expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with s3://, gs://, azure:// or file://"),
        ("bucket/prefix", "begins with s3://"),
        ("http://host/bucket", "begins with s3://"),
        ("s3:///prefix", "names no bucket: expected s3://bucket/prefix"),
        ("gs://", "names no bucket: expected gs://bucket/prefix"),
        ("s3://bucket/a//b", "has an empty part"),
        ("s3://bucket/a/../b", "has an empty part, or . or .."),
        ("s3://bucket/a#b", "must not contain #"),
        ("s3://bucket?regoin=x", '"regoin" is not an option .* expected endpoint, region'),
        ("gs://bucket?region=x", '"region" is not an option .* expected endpoint;'),
        ("file:///x?region=x", "expected none"),
        ("s3://bucket?region=x&region=y", "the option region twice"),
        ("s3://bucket?endpoint=minio:9000", '"minio:9000" is not an endpoint: expected https://'),
        ("s3://bucket?endpoint=", '"" is not an endpoint'),
        ("s3://bucket?endpoint=ftp://host", "is not an endpoint"),
        ("file://", "names no directory of this machine: expected file:///path"),
        ("file:///", "names no directory"),
        ("file://host/path", "names no directory of this machine"),
        ("s3://[bucket", "is not a URL"),
        ("s3://bucket?endpoint=http://[host", "is not a URL"),
    ],
)
def test_other_texts_are_refused(text: str, words: str) -> None:
    with pytest.raises(PlaceRefused, match=words):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA:hush@bucket/prefix",
        "s3://bucket?secret_access_key=hush",
        "s3://bucket?aws_secret_access_key=hush&region=x",
        "azure://container?sas_key=hush",
        "s3://bucket?endpoint=https://user:hush@minio:9000",
    ],
)
def test_credentials_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(PlaceRefused, match="credentials") as caught:
        parse(text)
    assert "hush" not in str(caught.value)
