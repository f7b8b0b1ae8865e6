"""Fixtures of programs that run with the official client and with `magnetar.compat`."""

import os
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from running_broker import RunningBroker


@pytest.fixture(params=["pulsar", "magnetar.compat"])
def api(request: pytest.FixtureRequest) -> ModuleType:
    """The module that a program imports as `pulsar`."""
    return import_module(request.param)


Connect = Callable[..., Any]


@pytest.fixture
def connect(api: ModuleType, broker: RunningBroker) -> Iterator[Connect]:
    """Clients that are closed at the end, unless the test has done it."""
    clients: list[Any] = []

    def open_one(**options: Any) -> Any:
        quiet = api.FileLogger(api.LoggerLevel.Error, os.devnull)
        clients.append(api.Client(broker.service_url, logger=quiet, **options))
        return clients[-1]

    yield open_one
    for client in clients:
        try:
            client.close()
        except api.AlreadyClosed:
            continue


@pytest.fixture
def client(connect: Connect) -> Any:
    return connect()


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/compat-{uuid.uuid4().hex[:10]}"
