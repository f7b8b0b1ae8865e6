"""The version of this broker, and the name it sends to clients."""

import json
from functools import cache
from importlib.metadata import distribution, version
from typing import Final

VERSION: Final = version("magnetar")
SERVER_VERSION: Final = f"Magnetar {VERSION}"
UNKNOWN: Final = "unknown"


@cache
def commit() -> str:
    """Return the commit of the repository that this was installed from; "unknown" for a file."""
    try:
        origin = json.loads(distribution("magnetar").read_text("direct_url.json") or "{}")
        return str(origin["vcs_info"]["commit_id"])
    except (KeyError, ValueError):
        return UNKNOWN
