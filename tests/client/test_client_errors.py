"""Every error code of the protocol becomes an exception that names the remedy."""

import pytest

from magnetar.base.errors import (
    BrokerError,
    Busy,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    NotReady,
    OperationTimeout,
    broker_error,
)
from magnetar_proto import PulsarApi_pb2 as pb


@pytest.mark.parametrize("code", pb.ServerError.values())
def test_every_code_has_an_exception_that_names_it(code: int) -> None:
    error = broker_error(code, "because")
    assert isinstance(error, BrokerError)
    assert error.code == code
    assert str(error).startswith(f"{pb.ServerError.Name(code)}: because")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (pb.TopicNotFound, "topic persistent://a/b/c does not exist: create it, or enable it"),
        (pb.MetadataError, "subscription s has 1 other consumers; close them or use force"),
    ],
)
def test_a_text_has_one_remedy(code: int, text: str) -> None:
    assert str(broker_error(code, text)).endswith(text)
    terse = "persistent://a/b/c Not Found."
    assert "create it first" in str(broker_error(pb.TopicNotFound, terse))


def test_a_code_of_a_later_protocol_is_no_accident() -> None:
    error = broker_error(999, "new")
    assert type(error) is BrokerError
    assert str(error) == "error 999: new"


@pytest.mark.parametrize(
    ("code", "kind", "retriable"),
    [
        (pb.ServiceNotReady, NotReady, True),
        (pb.TooManyRequests, NotReady, True),
        (pb.ConsumerBusy, Busy, False),
        (pb.ProducerBusy, Busy, False),
        (pb.TopicNotFound, NotFound, False),
        (pb.AuthenticationError, NotAuthenticated, False),
        (pb.AuthorizationError, NotAuthorized, False),
    ],
)
def test_what_is_tried_again(code: int, kind: type[BrokerError], retriable: bool) -> None:
    error = broker_error(code, "")
    assert type(error) is kind
    assert error.retriable is retriable


def test_a_timeout_is_the_builtin_one_too() -> None:
    assert issubclass(OperationTimeout, TimeoutError)
