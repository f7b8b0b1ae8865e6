"""Refuses to start a broker without authentication that other machines could reach."""

from magnetar_broker.config.settings import Settings


def refused_exposure(settings: Settings, host: str) -> str | None:
    """Return why the broker does not start; None if it may.  `host` is this machine's name."""
    # promise[settings.allow_unauthenticated_bind -> True]: a broker open to other machines asks who
    #   its clients are
    if (
        settings.binds_to_loopback
        or settings.authentication_enabled
        or settings.allow_unauthenticated_bind
    ):
        return None
    where = settings.origins.get("bind_address", "default")
    return (
        f"{where}: bindAddress={settings.bind_address}: every machine that reaches this one could "
        "read and write everything, because authenticationEnabled=false. These lines set up a "
        "broker with TLS, authentication and authorization:\n"
        f"  magnetar init --secure --host {host} magnetar-secure\n"
        "  magnetar standalone --conf magnetar-secure/broker.conf\n"
        "To let everyone who reaches the broker do everything: --insecure-public-bind, or "
        "magnetarAllowUnauthenticatedBind=true. Without bindAddress only this machine can connect"
    )
