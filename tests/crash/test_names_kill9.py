"""A deletion that is killed is complete after the restart, or never began."""

import threading
import time
from collections.abc import Callable

import pytest

from admin_http import Admin
from effort import part_of
from running_broker import RunningBroker

TOPICS = 40
KILLS = part_of(6, least=2)


def _segments(broker: RunningBroker) -> int:
    return len(list((broker.data_dir / "segments").glob("*.seg")))


def _await_sweep(broker: RunningBroker, most: int) -> None:
    """Wait until the sweep has moved what a kill left in `segments` to quarantine."""
    while _segments(broker) > most:
        time.sleep(0.01)


def _fill(admin: Admin, namespace: str) -> None:
    admin.makes_namespace(namespace)
    assert admin.post(f"namespaces/{namespace}/messageTTL", 77).status == 204
    assert admin.put(f"persistent/{namespace}/parted/partitions", TOPICS // 2).status == 204
    assert admin.put(f"persistent/{namespace}/parted/subscription/sub").status == 204
    for number in range(TOPICS // 2):
        path = f"persistent/{namespace}/topic{number}"
        assert admin.put(path).status == 204
        assert admin.put(f"{path}/subscription/sub").status == 204


def _whole(admin: Admin, namespace: str) -> bool:
    assert admin.get(f"namespaces/{namespace}/messageTTL").json == 77
    topics = admin.get(f"persistent/{namespace}").json
    assert len(topics) == TOPICS
    for topic in (*topics, f"persistent://{namespace}/parted"):
        path = topic.replace("://", "/")
        assert admin.get(f"{path}/subscriptions").json == ["sub"]
    return True


def _killed_while(
    broker: RunningBroker, deletion: Callable[[], object], is_under_way: Callable[[], bool]
) -> None:
    """Have the broker deleting, kill it and start it again."""

    def delete() -> None:
        try:
            deletion()
        except OSError:
            return  # it was killed before it answered

    thread = threading.Thread(target=delete)
    thread.start()
    while thread.is_alive() and not is_under_way():
        pass
    broker.kill()
    thread.join()
    broker.start()


@pytest.mark.parametrize("after", range(KILLS))
def test_a_namespace(make_broker: Callable[..., RunningBroker], after: int) -> None:
    broker = make_broker(
        forceDeleteNamespaceAllowed="true", magnetarAllowAutoNamespaceCreation="false"
    )
    admin, namespace = Admin(broker), "tenant/space"
    before = _segments(broker)
    _fill(admin, namespace)
    asked = 0

    def under_way() -> bool:
        nonlocal asked
        asked += admin.get(f"namespaces/{namespace}").status == 404
        return asked > after

    _killed_while(broker, lambda: admin.delete(f"namespaces/{namespace}?force=true"), under_way)
    if admin.get(f"namespaces/{namespace}").status == 404:
        admin.makes_namespace(namespace)
        assert admin.get(f"persistent/{namespace}").json == []
        assert admin.get(f"namespaces/{namespace}/messageTTL").body == b""
        assert admin.get(f"persistent/{namespace}/partitioned").json == []
        _await_sweep(broker, before)
    else:
        assert _whole(admin, namespace)


@pytest.mark.parametrize("after", range(KILLS))
def test_a_partitioned_topic(make_broker: Callable[..., RunningBroker], after: int) -> None:
    broker = make_broker(allowAutoTopicCreation="false")
    admin, namespace = Admin(broker), "tenant/space"
    _fill(admin, namespace)
    path = f"persistent/{namespace}/parted"
    mark = _segments(broker) - after * 3

    _killed_while(
        broker, lambda: admin.delete(f"{path}/partitions"), lambda: _segments(broker) < mark
    )
    topics = admin.get(f"persistent/{namespace}").json
    if admin.get(f"{path}/partitions").status == 404:
        assert len(topics) == TOPICS // 2
        assert admin.put(f"{path}/partitions", 2).status == 204
        assert admin.get(f"{path}/subscriptions").json == []
        _await_sweep(broker, TOPICS // 2)
    else:
        assert _whole(admin, namespace)
