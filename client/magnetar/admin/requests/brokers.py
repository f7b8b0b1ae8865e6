"""Requests about brokers: whether they work, and their settings."""

from magnetar.admin.requests.request import ROOT, Figures, Request, given, names_of, nothing, quoted

_PATH = f"{ROOT}/brokers"
_SETTINGS = f"{_PATH}/configuration"


def names() -> Request[list[str]]:
    """List the brokers of the cluster."""
    return Request("GET", _PATH, result=names_of)


def leader() -> Request[Figures]:
    """Get the leader, with its address."""
    return Request("GET", f"{_PATH}/leaderBroker", result=dict)


def version() -> Request[str]:
    """Get the version of the broker."""
    return Request("GET", f"{_PATH}/version", result=str)


def health(broker: str | None = None) -> Request[None]:
    """Send a message through the broker; Refused if it does not arrive."""
    return Request("GET", f"{_PATH}/health", query=given(brokerId=broker), result=nothing)


def health_details() -> Request[Figures]:
    """Send a message as `health` does, and get the details.

    `status` is degraded while stored messages cannot be read, and `damaged` lists them.
    """
    return Request("GET", f"{_PATH}/health", query={"detailed": "true"}, result=dict)


def bundles(cluster: str, broker: str) -> Request[Figures]:
    """List the bundles that a broker owns."""
    path = f"{_PATH}/{quoted(cluster)}/{quoted(broker)}/ownedNamespaces"
    return Request("GET", path, result=dict)


def settings() -> Request[dict[str, str]]:
    """Get all settings in effect."""
    return Request("GET", f"{_SETTINGS}/runtime", result=dict)


def explain_settings() -> Request[dict[str, Figures]]:
    """Get all settings in effect, each with its default and its source."""
    return Request("GET", f"{_SETTINGS}/explain", result=dict)


def changeable() -> Request[list[str]]:
    """List the settings that can be changed while the broker runs."""
    return Request("GET", _SETTINGS, result=names_of)


def changed() -> Request[dict[str, str]]:
    """Get the settings that were changed while the broker ran."""
    return Request("GET", f"{_SETTINGS}/values", result=dict)


def change(setting: str, value: str) -> Request[None]:
    """Change a setting at runtime, on all brokers; the change survives a restart."""
    path = f"{_SETTINGS}/{quoted(setting)}/{quoted(value)}"
    return Request("POST", path, result=nothing)


def undo_change(setting: str) -> Request[None]:
    """Restore the value that a setting had at the start of the broker."""
    return Request("DELETE", f"{_SETTINGS}/{quoted(setting)}", result=nothing)


def check_backlog_quotas() -> Request[None]:
    """Check all backlog quotas now."""
    return Request("GET", f"{_PATH}/backlog-quota-check", result=nothing)
