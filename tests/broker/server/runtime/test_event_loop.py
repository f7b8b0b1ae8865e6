"""The event loop that runs the broker.

tests/broker/server/processes/test_platforms.py uses asyncio's.
"""

import asyncio
import sys

import pytest
import uvloop

from magnetar_broker.server.runtime.event_loop import loop_factory


def test_uvloop_is_used_if_it_is_installed() -> None:
    assert loop_factory() == (uvloop.new_event_loop, None)


def test_asyncio_is_the_fallback_and_the_log_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    factory, warning = loop_factory()
    assert factory is asyncio.new_event_loop
    assert warning is not None and "pip install uvloop" in warning
