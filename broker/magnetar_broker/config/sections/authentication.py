"""Authentication."""

from magnetar_broker.config.domains import CLASSES, COUNT, FLAG, TEXT, TEXTS
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Integer

KEY_FORMS = "`data:;base64,...`, `file:///path`, a path of a file, or base64"


@section("Authentication")
class Authentication:
    """Authentication of clients, on the binary port and over HTTP."""

    authentication_enabled: bool = setting(
        FLAG,
        "Every connection and every HTTP request must prove a role, with one of "
        "`authenticationProviders`, or gets the anonymous role.",
        default=False,
    )
    authentication_providers: tuple[str, ...] = setting(
        CLASSES,
        "How roles are proved: `token`, `tls`, `basic`, `oidc`, or Pulsar's names of these "
        "classes, such as "
        "`org.apache.pulsar.broker.authentication.AuthenticationProviderToken`. If several "
        "have the same method, the first one that accepts the credentials counts.",
        default=(),
    )
    anonymous_user_role: str | None = setting(
        TEXT,
        "The role of clients that prove none. On the binary port these are clients whose "
        "method has no provider; over HTTP also those whose credentials are wrong, unless "
        "they name the method. With `strictAuthMethod` no request over HTTP has this role.",
        default=None,
    )
    strict_auth_method: bool = setting(
        FLAG,
        "Refuse HTTP requests that do not name their method in the header "
        "`X-Pulsar-Auth-Method-Name`.",
        default=False,
    )
    authentication_refresh_check_seconds: int = setting(
        Integer(1),
        "Interval at which a connection's credentials are checked for expiry. If they have "
        "expired, a client that supports it is asked for new ones, and must answer before the "
        "next check; any other client is disconnected.",
        default=60,
        unit="s",
    )
    authenticate_metrics_endpoint: bool | None = setting(
        FLAG,
        "Whether `/metrics` requires a role, too; blank requires one if "
        "`authenticationEnabled` is set.",
        default=None,
        pulsar="false",
    )
    proxy_roles: tuple[str, ...] = setting(
        TEXTS,
        "The roles of proxies. Their connections and requests name the role of the client, "
        "and both roles must have the permission.",
        default=(),
    )
    authenticate_original_auth_data: bool = setting(
        FLAG,
        "The credentials of a proxy's client, which the proxy forwards, must prove its role. "
        "If false, the name that the proxy gives counts.",
        default=False,
    )


@section("Tokens")
class Tokens:
    """JSON Web Tokens."""

    # promise[without secret=True,]: the secret of tokens is a secret
    token_secret_key: str | None = setting(
        TEXT,
        f"The secret that signs tokens, with HS256, HS384 or HS512: {KEY_FORMS}. At least 32 "
        "bytes. It takes precedence over `tokenPublicKey`.",
        default=None,
        secret=True,
    )
    token_public_key: str | None = setting(
        TEXT,
        f"The public key of what signs tokens, as DER or PEM: {KEY_FORMS}.",
        default=None,
    )
    token_public_alg: str = setting(
        TEXT,
        "The algorithm of `tokenPublicKey`: RS256 to RS512, PS256 to PS512, or ES256 to ES512. "
        "Tokens can be signed with any algorithm of the same family that fits the key.",
        default="RS256",
    )
    token_auth_claim: str = setting(
        TEXT,
        "The claim that contains the role; if it is a list, the first item counts.",
        default="sub",
    )
    token_audience_claim: str | None = setting(
        TEXT,
        "The claim that contains the audience, as text or a list; it must contain `tokenAudience`.",
        default=None,
    )
    token_audience: str | None = setting(
        TEXT,
        "The audience that stands for this broker.",
        default=None,
    )
    token_allowed_clock_skew_seconds: int = setting(
        COUNT,
        "How long a token is valid before its `nbf` and after its `exp`.",
        default=0,
        unit="s",
    )


@section("Passwords")
class Passwords:
    """Basic authentication."""

    basic_auth_conf: str | None = setting(
        TEXT,
        "Users and passwords in the format of `.htpasswd`, `user:hash` a line, with the hashes "
        "of `htpasswd -m` or `htpasswd -d`: a path of a file, `file:///path`, "
        "`data:;base64,...`, or base64. A file is read again when it has changed.",
        default=None,
        secret=True,
    )


@section("OpenID Connect")
class OpenID:
    """OpenID Connect."""

    open_id_allowed_token_issuers: tuple[str, ...] = setting(
        TEXTS,
        "URLs of the issuers whose tokens are accepted, exactly as in the claim `iss`.",
        default=(),
        name="openIDAllowedTokenIssuers",
    )
    open_id_allowed_audiences: tuple[str, ...] = setting(
        TEXTS,
        "A token must have at least one of these audiences in its claim `aud`.",
        default=(),
        name="openIDAllowedAudiences",
    )
    open_id_role_claim: str = setting(
        TEXT,
        "The claim that contains the role; if it is a list, the first item counts.",
        default="sub",
        name="openIDRoleClaim",
    )
    open_id_accepted_time_leeway_seconds: int = setting(
        COUNT,
        "How long a token is valid before its `nbf` and after its `exp`.",
        default=0,
        name="openIDAcceptedTimeLeewaySeconds",
        unit="s",
    )
    open_id_require_issuers_use_https: bool = setting(
        FLAG,
        "Refuse issuers whose URL is not https.",
        default=True,
        name="openIDRequireIssuersUseHttps",
    )
    open_id_token_issuer_trust_certs_file_path: str | None = setting(
        TEXT,
        "PEM file of the authorities that are trusted for issuers; blank means those of the "
        "system.",
        default=None,
        name="openIDTokenIssuerTrustCertsFilePath",
    )
    open_id_cache_size: int = setting(
        Integer(1),
        "Maximum number of issuers whose keys are kept.",
        default=5,
        name="openIDCacheSize",
    )
    open_id_cache_refresh_after_write_seconds: int = setting(
        Integer(1),
        "The age at which an issuer's keys are fetched again, while the known ones are used.",
        default=64800,
        name="openIDCacheRefreshAfterWriteSeconds",
        unit="s",
    )
    open_id_cache_expiration_seconds: int = setting(
        Integer(1),
        "The age at which an issuer's keys are no longer used.",
        default=86400,
        name="openIDCacheExpirationSeconds",
        unit="s",
    )
    open_id_key_id_cache_miss_refresh_seconds: int = setting(
        COUNT,
        "The minimum time between two fetches of an issuer's keys because a token names an "
        "unknown key.",
        default=300,
        name="openIDKeyIdCacheMissRefreshSeconds",
        unit="s",
    )
    open_id_http_connection_timeout_millis: int = setting(
        Integer(1),
        "Time limit of connecting to an issuer. A whole fetch takes at most this and "
        "openIDHttpReadTimeoutMillis together.",
        default=10000,
        name="openIDHttpConnectionTimeoutMillis",
        unit="ms",
    )
    open_id_http_read_timeout_millis: int = setting(
        Integer(1),
        "Time limit of an issuer's answer; see openIDHttpConnectionTimeoutMillis.",
        default=10000,
        name="openIDHttpReadTimeoutMillis",
        unit="ms",
    )
