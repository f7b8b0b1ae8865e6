"""The refusals of etcd's gateway."""

import pytest

from magnetar_broker.server.metadata_stores.etcd_errors import (
    GatewayError,
    NotEtcd,
    decoded,
    error_in,
    explained,
)
from magnetar_storage.errors import AccessDenied, DiskFull, StorageError, TooLarge, Unavailable


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b'{"code":5, "message":"Not Found"}', 5, "Not Found"),
        (b'{"error":"e","code":3,"message":"m"}', 3, "m"),
        (b'{"error":{"grpc_code":14,"http_code":503,"message":"m"}}', 14, "m"),
        (b'{"error":{"code":11,"message":"m"}}', 11, "m"),
    ],
)
def test_an_error_has_a_code_and_a_message(body: bytes, code: int, message: str) -> None:
    error = error_in(decoded(body))
    assert (error.code, str(error)) == (code, message)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"code":"5","message":"m"}', b"\xff"]
)
def test_other_answers_are_not_etcds(body: bytes) -> None:
    with pytest.raises(NotEtcd):
        error_in(decoded(body))


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (3, "etcdserver: request is too large", TooLarge),
        (8, "grpc: received message larger than max (3700008 vs. 2097152)", TooLarge),
        (8, "etcdserver: mvcc: database space exceeded", DiskFull),
        (7, "etcdserver: permission denied", AccessDenied),
        (16, "etcdserver: invalid auth token", AccessDenied),
        (3, "etcdserver: authentication failed, invalid user ID or password", AccessDenied),
        (3, "etcdserver: user name is empty", AccessDenied),
        (14, "etcdserver: no leader", Unavailable),
        (5, "etcdserver: requested lease not found", Unavailable),
        (14, "remote error: tls: bad certificate", Unavailable),
    ],
)
def test_each_refusal_is_an_error_of_storage(
    code: int, message: str, kind: type[StorageError]
) -> None:
    error = explained(GatewayError(code, message), "etcd refused")
    assert type(error) is kind
    assert str(error).startswith("etcd refused: " + message.removeprefix("etcdserver: "))
