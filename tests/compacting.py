"""Compaction asked for over HTTP, as admin clients do."""

import time

from admin_http import Admin, Serving

DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.02


def path_of(topic: str) -> str:
    """Of a topic's compaction."""
    return topic.replace("://", "/") + "/compaction"


def status_of(broker: Serving, topic: str) -> dict[str, str]:
    """The status of the compaction, as GET returns it."""
    answer = Admin(broker).get(path_of(topic))
    assert answer.status == 200
    return dict(answer.json)


def ended(broker: Serving, topic: str) -> dict[str, str]:
    """The status of the compaction once it does not run any more."""
    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        status = status_of(broker, topic)
        if status["status"] not in ("RUNNING", "NOT_RUN"):
            return status
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"{topic} is still being compacted")


def compact(broker: Serving, topic: str) -> None:
    """Compact a topic, and see that it worked."""
    assert Admin(broker).put(path_of(topic)).status == 204
    assert ended(broker, topic) == {"status": "SUCCESS", "lastError": ""}
