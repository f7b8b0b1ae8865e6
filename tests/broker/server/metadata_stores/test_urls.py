"""The URLs of servers of metadata, and their errors."""

import pytest

from magnetar_broker.server.metadata_stores.urls import (
    SCHEMA,
    Endpoint,
    MetadataRefused,
    etcd_place,
    postgres_place,
    scheme_of,
)

SECRET = "s3cr%3At"


@pytest.mark.parametrize(
    ("url", "scheme"), [("etcd:https://a", "etcd"), ("Postgres://a/b", "postgres"), ("a/b", "")]
)
def test_the_scheme_is_before_the_first_colon(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


@pytest.mark.parametrize(
    ("url", "endpoints", "prefix", "text"),
    [
        ("etcd:http://a", (("a", 2379, False),), "", "etcd:http://a:2379"),
        (
            "etcd:https://a:1,http://b.example:2/",
            (("a", 1, True), ("b.example", 2, False)),
            "",
            "etcd:https://a:1,http://b.example:2",
        ),
        (
            "etcd:https://[::1]:7,https://b/clusters/one",
            (("::1", 7, True), ("b", 2379, True)),
            "/clusters/one",
            "etcd:https://[::1]:7,https://b:2379/clusters/one",
        ),
        ("etcd:http://a/%C3%A9", (("a", 2379, False),), "/é", "etcd:http://a:2379/é"),
    ],
)
def test_etcd_has_endpoints_and_a_prefix(
    url: str, endpoints: tuple[tuple[str, int, bool], ...], prefix: str, text: str
) -> None:
    place = etcd_place(url)
    assert place.endpoints == tuple(Endpoint(*one) for one in endpoints)
    assert (place.prefix, place.text) == (prefix, text)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("etcd:", "is not an address of etcd"),
        ("etcd:host:2379", "is not an address of etcd"),
        ("etcd:ftp://host", "is not an address of etcd"),
        ("etcd:http://", "is not an address of etcd"),
        ("etcd:http://a,b", "is not an address of etcd"),
        ("etcd:http://a/prefix,http://b", "is not an address of etcd"),
        ("etcd:http://a:99999", "a port that is not a number"),
        ("etcd:http://a:x", "a port that is not a number"),
        ("etcd:http://[a", "is not a URL"),
        ("etcd:http://a?x=y", r"must not contain \? or #"),
        ("etcd:http://a#b", r"must not contain \? or #"),
        (f"etcd:http://me:{SECRET}@a", "must not contain credentials"),
    ],
)
def test_a_wrong_etcd_url_is_refused_without_its_secrets(url: str, why: str) -> None:
    with pytest.raises(MetadataRefused, match=why) as caught:
        etcd_place(url)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "dsn", "text", "schema"),
    [
        ("postgres://me@h:1/db", "postgres://me@h:1/db", "postgres://me@h:1/db", SCHEMA),
        ("postgresql:///db", "postgresql:///db", "postgresql:///db", SCHEMA),
        (
            f"postgres://me:{SECRET}@h,i:2/db?sslrootcert=/a/b&schema=other",
            f"postgres://me:{SECRET}@h,i:2/db?sslrootcert=/a/b",
            "postgres://me@h,i:2/db?sslrootcert=/a/b&schema=other",
            "other",
        ),
        (
            f"postgres://h/db?user=me&password={SECRET}&sslpassword=x",
            f"postgres://h/db?user=me&password={SECRET}&sslpassword=x",
            "postgres://h/db?user=me",
            SCHEMA,
        ),
    ],
)
def test_postgres_has_a_url_for_its_driver_and_one_to_show(
    url: str, dsn: str, text: str, schema: str
) -> None:
    place = postgres_place(url)
    assert (place.dsn, place.text, place.schema) == (dsn, text, schema)
    assert SECRET not in repr(place)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"postgres://me:{SECRET}@h:x/db", "a port that is not a number"),
        (f"postgres://me:{SECRET}@h,i:70000/db", "a port that is not a number"),
        (f"postgres://me:{SECRET}@[h/db", "is not a URL"),
        (f"postgres://me:{SECRET}@h/db#x", "is not valid"),
        (f"postgres:me:{SECRET}@h/db", "is not valid"),
        (f"postgres://me:{SECRET}@h/db?schema=No", "not a name for the schema"),
        (f"postgres://me:{SECRET}@h/db?schema=a;b", "not a name for the schema"),
        (f"postgres://me:{SECRET}@h/db?schema={'a' * 41}", "not a name for the schema"),
    ],
)
def test_a_wrong_postgres_url_is_refused_without_its_secrets(url: str, why: str) -> None:
    with pytest.raises(MetadataRefused, match=why) as caught:
        postgres_place(url)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
