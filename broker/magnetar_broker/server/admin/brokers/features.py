"""Features of Pulsar that this broker does not have, and the refusals of requests for them."""

from magnetar_broker.server.http.messages import Refused

FEATURES = {
    "functions": (409, "functions do not run here: use a client that consumes and publishes"),
    "sources": (409, "connectors do not run here: use a client that publishes"),
    "sinks": (409, "connectors do not run here: use a client that consumes"),
    "worker": (409, "functions do not run here: there are no workers of functions"),
    "worker-stats": (409, "functions do not run here: there are no workers of functions"),
    "packages": (503, "packages are not kept here: store them where your programs are"),
    "transactions": (404, "there is no such request about transactions here"),
    "bookies": (501, "entries are in this broker's own files: there are no bookies"),
    "resource-quotas": (501, "bundles have no quotas here: they are placed by measured load"),
    "scalable": (501, "there are no scalable topics here: use partitioned ones"),
}
"""The status and the reason of every refusal, by the part of the path that follows the version."""


def feature_of(path: str) -> Refused | None:
    """Return the refusal of a path without a route, if it is one of an absent feature."""
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "admin" and parts[2] in ("v2", "v3"):
        found = FEATURES.get(parts[3])
        if found is not None:
            return Refused(*found)
    return None
