"""What a broker on shared stores does without them: settings, and the end of its log."""

import logging
import os

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.server.remote_data.remote_storage import RemoteStorage, session_limits
from magnetar_storage.errors import Unavailable


def test_a_broker_whose_log_has_failed_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    storage = RemoteStorage(Settings(metadata_store_url="etcd:http://127.0.0.1:1"))
    storage.log_ended(Unavailable("the store was away for 120 s"))
    assert codes == [1]
    assert caplog.messages == [
        "this broker ends, because nothing can be added to its log any more: the store was away"
        " for 120 s"
    ]


@pytest.mark.parametrize("uploads", [1, 8, 16])
def test_one_slow_upload_does_not_stop_the_others_at_once(uploads: int) -> None:
    limits = session_limits(Settings(magnetar_wal_uploads=uploads))
    assert limits.wal.unreported_slots == 4 * uploads
