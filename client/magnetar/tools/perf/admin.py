"""What a run asks the REST API of the broker: how durable receipts are, and partitions."""

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from magnetar_proto.names import TopicName

SECONDS = 10.0
UNKNOWN = "unknown"


def durability_of(admin_url: str) -> str:
    """When the broker sends receipts: `magnetarDurability`, or why it is not known."""
    try:
        settings = _ask(admin_url, "GET", "/admin/v2/brokers/configuration/runtime")
    except (URLError, OSError, ValueError) as error:
        return f"{UNKNOWN} ({admin_url}: {getattr(error, 'reason', error)})"
    return str(settings.get("magnetarDurability", UNKNOWN))


def have_partitions(admin_url: str, topic: str, partitions: int) -> None:
    """Create a partitioned topic, unless it exists with as many partitions; else ValueError."""
    name = TopicName.parse(topic)
    local = quote(name.local, safe="")
    path = f"/admin/v2/{name.domain}/{name.tenant}/{name.namespace}/{local}/partitions"
    try:
        _ask(admin_url, "PUT", path, partitions)
    except HTTPError as error:
        if error.code != 409:
            reason = error.read().decode(errors="replace")
            raise ValueError(f"{topic}: status {error.code}: {reason}") from error
        present = _ask(admin_url, "GET", path)["partitions"]
        if present != partitions:
            raise ValueError(
                f"{topic} has {present} partitions, not {partitions}: leave -np out, or name "
                "another topic"
            ) from error
    except (URLError, OSError) as error:
        raise ValueError(
            f"-np needs the REST API, and {admin_url} does not answer: "
            f"{getattr(error, 'reason', error)} (--admin-url)"
        ) from error


def _ask(url: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = Request(url.rstrip("/") + path, data, headers, method=method)
    with urlopen(request, timeout=SECONDS) as response:
        text = response.read()
    return json.loads(text) if text else None
