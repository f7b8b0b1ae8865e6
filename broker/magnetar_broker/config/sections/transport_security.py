"""TLS on the ports of the broker."""

from magnetar_broker.config.domains import CIPHER, COUNT, FLAG, PATH, PORT, TlsProtocol
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choices, Texts

CIPHERS = (
    "Names of the standard (`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`) or of OpenSSL. Blank is what "
    "Python considers secure. The three of TLS 1.3 cannot be chosen one by one: one of them stands "
    "for all."
)
PROTOCOLS = "Blank is TLS 1.2 and 1.3."


@section("TLS")
class TransportSecurity:
    """TLS: ports, files, and the certificates of clients."""

    broker_service_port_tls: int | None = setting(
        PORT,
        "Port of the binary protocol over TLS (`pulsar+ssl://`); 0 takes any free port, blank "
        "opens none.",
        default=None,
    )
    web_service_port_tls: int | None = setting(
        PORT,
        "Port of HTTPS; 0 takes any free port, blank opens none.",
        default=None,
    )
    tls_enabled: bool = setting(
        FLAG,
        "Accepted for configurations of old versions of Pulsar. It opens no port: "
        "`brokerServicePortTls` and `webServicePortTls` do. If it is true and neither of them "
        "is set, the broker does not start.",
        default=False,
    )
    tls_certificate_file_path: str | None = setting(
        PATH,
        "The broker's certificate, in PEM, followed by those of intermediate authorities.",
        default=None,
    )
    tls_key_file_path: str | None = setting(
        PATH,
        "The key of the certificate, in PEM (PKCS #8 or the older forms), not encrypted.",
        default=None,
    )
    tls_trust_certs_file_path: str | None = setting(
        PATH,
        "The certificates, in PEM, with which certificates of clients are verified. If blank, "
        "clients are not asked for certificates.",
        default=None,
    )
    tls_allow_insecure_connection: bool = setting(
        FLAG,
        "Whether clients may connect with a certificate that cannot be verified. Clients are "
        "not asked for certificates then, and cannot authenticate with them.",
        default=False,
    )
    tls_require_trusted_client_cert_on_connect: bool = setting(
        FLAG,
        "Whether the handshake fails without a client certificate that "
        "`tlsTrustCertsFilePath` verifies.",
        default=False,
    )
    tls_protocols: frozenset[TlsProtocol] = setting(
        Choices(TlsProtocol),
        f"Versions of TLS that `brokerServicePortTls` accepts. {PROTOCOLS}",
        default=frozenset(),
    )
    tls_ciphers: tuple[str, ...] = setting(
        Texts(CIPHER),
        f"Cipher suites that `brokerServicePortTls` accepts. {CIPHERS}",
        default=(),
    )
    tls_cert_refresh_check_duration_sec: int = setting(
        COUNT,
        "How often the broker checks whether the files of certificate, key and trusted "
        "certificates have changed; new connections use the new ones. With 0 it checks at "
        "each connection. SIGHUP makes it check at once.",
        default=300,
        unit="s",
    )
    web_service_tls_protocols: frozenset[TlsProtocol] = setting(
        Choices(TlsProtocol),
        f"Versions of TLS that `webServicePortTls` accepts. {PROTOCOLS}",
        default=frozenset(),
    )
    web_service_tls_ciphers: tuple[str, ...] = setting(
        Texts(CIPHER),
        f"Cipher suites that `webServicePortTls` accepts. {CIPHERS}",
        default=(),
    )
