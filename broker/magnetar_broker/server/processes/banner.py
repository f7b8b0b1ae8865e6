"""The text that a broker prints when it is ready."""

from collections.abc import Iterator, Sequence

from magnetar_broker.base.version import VERSION
from magnetar_broker.config import Settings
from magnetar_broker.config.authentication import providers_of
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.server.runtime.advertised import own_urls
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_proto.build import KIND


def banner(
    settings: Settings,
    default: ListenerUrls,
    ports: PortNumbers,
    storage: Sequence[tuple[str, str]],
    processes: str | None = None,
) -> str:
    """Return the lines that are printed when the broker is ready.

    `default` are the addresses in answers to lookups; `storage` are the lines about the data
    (`Storage.described`); `processes` says in words which there are.
    """
    own = own_urls(settings, ports)
    lines = [
        f"Magnetar {VERSION} is ready, {KIND}",
        *(f"  clients     {url}" for url in default[:2] if url),
        *(f"  listener    {entry}" for entry in settings.advertised_listeners),
        *([f"  HTTP        {url}" for url in own[2:] if url] or ["  HTTP        off"]),
        *_tls(settings, ports),
        *([f"  processes   {processes}"] if processes else []),
        f"  access      {access_of(settings)}",
        *(f"  {word:<11} {text}" for word, text in storage),
    ]
    return "\n".join(lines)


def access_of(settings: Settings) -> str:
    """Return in words who may connect."""
    if settings.authentication_enabled:
        return f"with authentication: {', '.join(providers_of(settings))}"
    whom = "this machine" if settings.binds_to_loopback else "EVERYONE"
    return f"{whom}, without authentication (authenticationEnabled)"


def _tls(settings: Settings, ports: PortNumbers) -> Iterator[str]:
    """Yield the line that says which certificates clients must show, if there is a TLS port."""
    if (ports.clients_tls, ports.http_tls) == (None, None):
        return
    if settings.tls_allow_insecure_connection:
        text = "INSECURE: certificates of clients are not verified (tlsAllowInsecureConnection)"
    elif settings.tls_require_trusted_client_cert_on_connect:
        text = "clients must show a certificate that tlsTrustCertsFilePath verifies"
    elif settings.tls_trust_certs_file_path is not None:
        text = "certificates that clients show are verified (tlsTrustCertsFilePath)"
    else:
        text = "clients are asked for no certificate"
    yield f"  TLS         {text}"
