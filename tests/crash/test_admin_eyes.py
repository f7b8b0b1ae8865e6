"""A look ends, even where messages are deleted while it reads them."""

from collections.abc import Callable

import pytest

from admin_http import Admin
from crash import owners
from crash.admin_eyes import Eyes
from raw_client import RawClient
from running_broker import RunningBroker

PATH = "persistent/public/default/plain"


def test_what_is_deleted_before_it_is_read_does_not_come(
    make_broker: Callable[..., RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker(keepAliveIntervalSeconds="10", magnetarUnreadMessagesRetentionMinutes="0")
    admin = Admin(broker)

    class Late(RawClient):
        """Its permits arrive when all is deleted."""

        def flow(self, permits: int, consumer_id: int = 1) -> None:
            assert admin.post(f"{PATH}/trim").status == 200
            super().flow(permits, consumer_id)

    with RawClient(broker.port) as client:
        client.produce("persistent://public/default/plain")
        client.publish(0, b"one")
    assert admin.put(f"{PATH}/unload").status == 204  # seals the segment
    monkeypatch.setattr(owners, "RawClient", Late)
    seen = Eyes(broker, "public/default", ["plain"]).look()
    assert seen.families["plain"].logs[-1].messages == []
