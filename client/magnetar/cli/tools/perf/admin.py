"""The requests of a run to the REST API: the durability of receipts, and partitions."""

from urllib.parse import quote

from magnetar.admin.client import AdminClient, AdminError, NoAnswer, Refused
from magnetar.admin.settings import AdminSettings
from magnetar.security.client_conf import SettingsError
from magnetar_proto.names import TopicName

SECONDS = 10.0
UNKNOWN = "unknown"


def durability_of(settings: AdminSettings) -> str:
    """Return the broker's `magnetarDurability`, or the reason why it is not known."""
    try:
        with AdminClient(settings) as admin:
            found = admin.get("/admin/v2/brokers/configuration/runtime")
    except (AdminError, SettingsError) as error:
        return f"{UNKNOWN} ({settings.url}: {error})"
    return str(found.get("magnetarDurability", UNKNOWN))


def have_partitions(settings: AdminSettings, topic: str, partitions: int) -> None:
    """Create a partitioned topic; ValueError if it exists with another number of partitions."""
    name = TopicName.parse(topic)
    local = quote(name.local, safe="")
    path = f"/admin/v2/{name.domain}/{name.tenant}/{name.namespace}/{local}/partitions"
    try:
        with AdminClient(settings) as admin:
            present = _created(admin, path, partitions)
    except Refused as error:
        raise ValueError(f"{topic}: status {error.status}: {error}") from error
    except NoAnswer as error:
        raise ValueError(
            f"-np needs the REST API, and {settings.url} does not answer: {error} (--admin-url)"
        ) from error
    if present != partitions:
        raise ValueError(
            f"{topic} has {present} partitions, not {partitions}: leave -np out, or name "
            "another topic"
        )


def _created(admin: AdminClient, path: str, partitions: int) -> int:
    """Create the topic if it does not exist, and return its number of partitions."""
    try:
        admin.put(path, partitions)
    except Refused as error:
        if error.status != 409:
            raise
        return int(admin.get(path)["partitions"])
    return partitions
