"""Authentication."""

from typing import Annotated

from magnetar_broker.config.domains import CLASSES, COUNT, FLAG, TEXT, TEXTS
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, Key

KEY_FORMS = "`data:;base64,...`, `file:///path`, a path of a file, or base64"


@section
class Authentication:
    """Authentication of clients, on the binary port and over HTTP."""

    authentication_enabled: Annotated[
        bool,
        Key(
            "authenticationEnabled",
            FLAG,
            "Every connection and every HTTP request must prove a role, with one of "
            "`authenticationProviders`, or gets the anonymous role.",
        ),
    ] = False
    authentication_providers: Annotated[
        tuple[str, ...],
        Key(
            "authenticationProviders",
            CLASSES,
            "How roles are proved: `token`, `tls`, `basic`, `oidc`, or Pulsar's names of these "
            "classes, such as "
            "`org.apache.pulsar.broker.authentication.AuthenticationProviderToken`. If several "
            "have the same method, the first one that accepts the credentials counts.",
        ),
    ] = ()
    anonymous_user_role: Annotated[
        str | None,
        Key(
            "anonymousUserRole",
            TEXT,
            "The role of clients that prove none. On the binary port these are clients whose "
            "method has no provider; over HTTP also those whose credentials are wrong, unless "
            "they name the method. With `strictAuthMethod` no request over HTTP has this role.",
        ),
    ] = None
    strict_auth_method: Annotated[
        bool,
        Key(
            "strictAuthMethod",
            FLAG,
            "Refuse HTTP requests that do not name their method in the header "
            "`X-Pulsar-Auth-Method-Name`.",
        ),
    ] = False
    authentication_refresh_check_seconds: Annotated[
        int,
        Key(
            "authenticationRefreshCheckSeconds",
            Integer(1),
            "Interval at which a connection's credentials are checked for expiry. If they have "
            "expired, a client that supports it is asked for new ones, and must answer before the "
            "next check; any other client is disconnected.",
            unit="s",
        ),
    ] = 60
    authenticate_metrics_endpoint: Annotated[
        bool | None,
        Key(
            "authenticateMetricsEndpoint",
            FLAG,
            "Whether `/metrics` requires a role, too; blank requires one if "
            "`authenticationEnabled` is set.",
            pulsar="false",
        ),
    ] = None
    proxy_roles: Annotated[
        tuple[str, ...],
        Key(
            "proxyRoles",
            TEXTS,
            "The roles of proxies. Their connections and requests name the role of the client, "
            "and both roles must have the permission.",
        ),
    ] = ()
    authenticate_original_auth_data: Annotated[
        bool,
        Key(
            "authenticateOriginalAuthData",
            FLAG,
            "The credentials of a proxy's client, which the proxy forwards, must prove its role. "
            "If false, the name that the proxy gives counts.",
        ),
    ] = False


@section
class Tokens:
    """JSON Web Tokens."""

    # promise[without secret=True,]: the secret of tokens is a secret
    token_secret_key: Annotated[
        str | None,
        Key(
            "tokenSecretKey",
            TEXT,
            f"The secret that signs tokens, with HS256, HS384 or HS512: {KEY_FORMS}. At least 32 "
            "bytes. It takes precedence over `tokenPublicKey`.",
            secret=True,
        ),
    ] = None
    token_public_key: Annotated[
        str | None,
        Key(
            "tokenPublicKey",
            TEXT,
            f"The public key of what signs tokens, as DER or PEM: {KEY_FORMS}.",
        ),
    ] = None
    token_public_alg: Annotated[
        str,
        Key(
            "tokenPublicAlg",
            TEXT,
            "The algorithm of `tokenPublicKey`: RS256 to RS512, PS256 to PS512, or ES256 to ES512. "
            "Tokens can be signed with any algorithm of the same family that fits the key.",
        ),
    ] = "RS256"
    token_auth_claim: Annotated[
        str,
        Key(
            "tokenAuthClaim",
            TEXT,
            "The claim that contains the role; if it is a list, the first item counts.",
        ),
    ] = "sub"
    token_audience_claim: Annotated[
        str | None,
        Key(
            "tokenAudienceClaim",
            TEXT,
            "The claim that contains the audience, as text or a list; it must contain "
            "`tokenAudience`.",
        ),
    ] = None
    token_audience: Annotated[
        str | None,
        Key(
            "tokenAudience",
            TEXT,
            "The audience that stands for this broker.",
        ),
    ] = None
    token_allowed_clock_skew_seconds: Annotated[
        int,
        Key(
            "tokenAllowedClockSkewSeconds",
            COUNT,
            "How long a token is valid before its `nbf` and after its `exp`.",
            unit="s",
        ),
    ] = 0


@section
class Passwords:
    """Basic authentication."""

    basic_auth_conf: Annotated[
        str | None,
        Key(
            "basicAuthConf",
            TEXT,
            "Users and passwords in the format of `.htpasswd`, `user:hash` a line, with the hashes "
            "of `htpasswd -m` or `htpasswd -d`: a path of a file, `file:///path`, "
            "`data:;base64,...`, or base64. A file is read again when it has changed.",
            secret=True,
        ),
    ] = None


@section
class OpenID:
    """OpenID Connect."""

    open_id_allowed_token_issuers: Annotated[
        tuple[str, ...],
        Key(
            "openIDAllowedTokenIssuers",
            TEXTS,
            "URLs of the issuers whose tokens are accepted, exactly as in the claim `iss`.",
        ),
    ] = ()
    open_id_allowed_audiences: Annotated[
        tuple[str, ...],
        Key(
            "openIDAllowedAudiences",
            TEXTS,
            "A token must have at least one of these audiences in its claim `aud`.",
        ),
    ] = ()
    open_id_role_claim: Annotated[
        str,
        Key(
            "openIDRoleClaim",
            TEXT,
            "The claim that contains the role; if it is a list, the first item counts.",
        ),
    ] = "sub"
    open_id_accepted_time_leeway_seconds: Annotated[
        int,
        Key(
            "openIDAcceptedTimeLeewaySeconds",
            COUNT,
            "How long a token is valid before its `nbf` and after its `exp`.",
            unit="s",
        ),
    ] = 0
    open_id_require_issuers_use_https: Annotated[
        bool,
        Key("openIDRequireIssuersUseHttps", FLAG, "Refuse issuers whose URL is not https."),
    ] = True
    open_id_token_issuer_trust_certs_file_path: Annotated[
        str | None,
        Key(
            "openIDTokenIssuerTrustCertsFilePath",
            TEXT,
            "PEM file of the authorities that are trusted for issuers; blank means those of the "
            "system.",
        ),
    ] = None
    open_id_cache_size: Annotated[
        int,
        Key(
            "openIDCacheSize",
            Integer(1),
            "Maximum number of issuers whose keys are kept.",
        ),
    ] = 5
    open_id_cache_refresh_after_write_seconds: Annotated[
        int,
        Key(
            "openIDCacheRefreshAfterWriteSeconds",
            Integer(1),
            "The age at which an issuer's keys are fetched again, while the known ones are used.",
            unit="s",
        ),
    ] = 64800
    open_id_cache_expiration_seconds: Annotated[
        int,
        Key(
            "openIDCacheExpirationSeconds",
            Integer(1),
            "The age at which an issuer's keys are no longer used.",
            unit="s",
        ),
    ] = 86400
    open_id_key_id_cache_miss_refresh_seconds: Annotated[
        int,
        Key(
            "openIDKeyIdCacheMissRefreshSeconds",
            COUNT,
            "The minimum time between two fetches of an issuer's keys because a token names an "
            "unknown key.",
            unit="s",
        ),
    ] = 300
    open_id_http_connection_timeout_millis: Annotated[
        int,
        Key(
            "openIDHttpConnectionTimeoutMillis",
            Integer(1),
            "Time limit of connecting to an issuer. A whole fetch takes at most this and "
            "openIDHttpReadTimeoutMillis together.",
            unit="ms",
        ),
    ] = 10000
    open_id_http_read_timeout_millis: Annotated[
        int,
        Key(
            "openIDHttpReadTimeoutMillis",
            Integer(1),
            "Time limit of an issuer's answer; see openIDHttpConnectionTimeoutMillis.",
            unit="ms",
        ),
    ] = 10000
