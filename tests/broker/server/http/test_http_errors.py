"""The HTTP status of each refusal."""

from collections.abc import Iterator

import pytest

from magnetar_broker.base import errors
from magnetar_broker.base.errors import BrokerError, UnknownError
from magnetar_broker.server.http.errors import status_of


def _kinds(of: type[BrokerError]) -> Iterator[type[BrokerError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


REFUSALS = [kind for kind in _kinds(BrokerError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_every_refusal_has_a_status(kind: type[BrokerError]) -> None:
    status = status_of(kind("why"))
    assert 400 <= status < 500 or status == 503 or kind is UnknownError
