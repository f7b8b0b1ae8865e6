"""Requests about brokers: whether they work, and their settings."""

from magnetar.admin.requests.request import Figures, Request, ask, given, names_of, nothing


def names() -> Request[list[str]]:
    """List the brokers of the cluster."""
    return ask("brokers.active_brokers.brokers", result=names_of)


def leader() -> Request[Figures]:
    """Get the leader, with its address."""
    return ask("brokers.active_brokers.leader", result=dict)


def version() -> Request[str]:
    """Get the version of the broker."""
    return ask("brokers.active_brokers.version", result=str)


def health(broker: str | None = None) -> Request[None]:
    """Send a message through the broker; Refused if it does not arrive."""
    return ask("brokers.active_brokers.health", query=given(brokerId=broker), result=nothing)


def health_details() -> Request[Figures]:
    """Send a message as `health` does, and get the details.

    `status` is degraded while stored messages cannot be read, and `damaged` lists them.
    """
    return ask("brokers.active_brokers.health", query={"detailed": "true"}, result=dict)


def bundles(cluster: str, broker: str) -> Request[Figures]:
    """List the bundles that a broker owns."""
    return ask("brokers.active_brokers.owned", cluster, broker, result=dict)


def settings() -> Request[dict[str, str]]:
    """Get all settings in effect."""
    return ask("brokers.configuration.effective", result=dict)


def explain_settings() -> Request[dict[str, Figures]]:
    """Get all settings in effect, each with its default and its source."""
    return ask("brokers.configuration.explained", result=dict)


def changeable() -> Request[list[str]]:
    """List the settings that can be changed while the broker runs."""
    return ask("brokers.configuration.dynamic", result=names_of)


def changed() -> Request[dict[str, str]]:
    """Get the settings that were changed while the broker ran."""
    return ask("brokers.configuration.changed", result=dict)


def change(setting: str, value: str) -> Request[None]:
    """Change a setting at runtime, on all brokers; the change survives a restart."""
    return ask("brokers.configuration.change", setting, value, result=nothing)


def undo_change(setting: str) -> Request[None]:
    """Restore the value that a setting had at the start of the broker."""
    return ask("brokers.configuration.restore", setting, result=nothing)


def check_backlog_quotas() -> Request[None]:
    """Check all backlog quotas now."""
    return ask("messages.backlog_actions.check_quotas", result=nothing)
