"""Requests about brokers: whether they work, and their settings."""

from magnetar.admin.requests.request import ROOT, Figures, Request, given, names_of, nothing, quoted

_PATH = f"{ROOT}/brokers"
_SETTINGS = f"{_PATH}/configuration"


def names() -> Request[list[str]]:
    """The brokers of the cluster."""
    return Request("GET", _PATH, result=names_of)


def leader() -> Request[Figures]:
    """The leader, by its address."""
    return Request("GET", f"{_PATH}/leaderBroker", result=dict)


def version() -> Request[str]:
    """The version of the broker."""
    return Request("GET", f"{_PATH}/version", result=str)


def health(broker: str | None = None) -> Request[None]:
    """Send a message through the broker; Refused if it does not arrive."""
    return Request("GET", f"{_PATH}/health", query=given(brokerId=broker), result=nothing)


def health_details() -> Request[Figures]:
    """As `health`; `status` is degraded while stored messages cannot be read, with `damaged`."""
    return Request("GET", f"{_PATH}/health", query={"detailed": "true"}, result=dict)


def bundles(cluster: str, broker: str) -> Request[Figures]:
    """The bundles that a broker owns."""
    path = f"{_PATH}/{quoted(cluster)}/{quoted(broker)}/ownedNamespaces"
    return Request("GET", path, result=dict)


def settings() -> Request[dict[str, str]]:
    """All settings in effect."""
    return Request("GET", f"{_SETTINGS}/runtime", result=dict)


def explain_settings() -> Request[dict[str, Figures]]:
    """All settings in effect, each with its default, and where it was set."""
    return Request("GET", f"{_SETTINGS}/explain", result=dict)


def changeable() -> Request[list[str]]:
    """The settings that can be changed while the broker runs."""
    return Request("GET", _SETTINGS, result=names_of)


def changed() -> Request[dict[str, str]]:
    """The settings that were changed while the broker ran."""
    return Request("GET", f"{_SETTINGS}/values", result=dict)


def change(setting: str, value: str) -> Request[None]:
    """Change a setting while the broker runs, for all brokers and also for later starts."""
    path = f"{_SETTINGS}/{quoted(setting)}/{quoted(value)}"
    return Request("POST", path, result=nothing)


def undo_change(setting: str) -> Request[None]:
    """Let a setting have the value again that it was started with."""
    return Request("DELETE", f"{_SETTINGS}/{quoted(setting)}", result=nothing)


def check_backlog_quotas() -> Request[None]:
    """Check all backlog quotas now."""
    return Request("GET", f"{_PATH}/backlog-quota-check", result=nothing)
