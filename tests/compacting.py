"""Compaction asked for over HTTP, as admin clients do."""

import json
import time
import urllib.error
import urllib.request
from typing import Any, Protocol

DEADLINE_SECONDS = 30.0
LOOK_SECONDS = 0.02


class Serving(Protocol):
    """A broker that runs, Magnetar or the original."""

    @property
    def http_url(self) -> str: ...


def ask(broker: Serving, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and JSON of a request; `path` follows /admin/v2/."""
    url = f"{broker.http_url}/admin/v2/{path}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def path_of(topic: str) -> str:
    """Of a topic's compaction."""
    return topic.replace("://", "/") + "/compaction"


def status_of(broker: Serving, topic: str) -> dict[str, str]:
    """What GET says."""
    status, value = ask(broker, "GET", path_of(topic))
    assert status == 200
    return dict(value)


def ended(broker: Serving, topic: str) -> dict[str, str]:
    """The same once nothing runs (any more)."""
    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        said = status_of(broker, topic)
        if said["status"] not in ("RUNNING", "NOT_RUN"):
            return said
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"{topic} is still being compacted")


def compact(broker: Serving, topic: str) -> None:
    """Compact a topic, and see that it worked."""
    assert ask(broker, "PUT", path_of(topic))[0] == 204
    assert ended(broker, topic) == {"status": "SUCCESS", "lastError": ""}
