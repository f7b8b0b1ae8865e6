"""The providers of authentication, and the settings that each of them needs."""

from collections.abc import Iterator
from typing import Final

from magnetar_broker.config.settings import Settings
from magnetar_broker.config.values import render

_PACKAGE: Final = "org.apache.pulsar.broker.authentication."
TOKEN, TLS, BASIC, OIDC = "token", "tls", "basic", "oidc"
PROVIDERS: Final = {
    TOKEN: f"{_PACKAGE}AuthenticationProviderToken",
    TLS: f"{_PACKAGE}AuthenticationProviderTls",
    BASIC: f"{_PACKAGE}AuthenticationProviderBasic",
    OIDC: f"{_PACKAGE}oidc.AuthenticationProviderOpenID",
}
"""The short names of providers, with the names that Pulsar has for them."""
_NAMES: Final = {
    text: name for name, full in PROVIDERS.items() for text in (name, full, full.rpartition(".")[2])
}


def providers_of(settings: Settings) -> list[str]:
    """Return the short names of the providers, in their order; none while authentication is off."""
    if not settings.authentication_enabled:
        return []
    return list(dict.fromkeys(_NAMES[name] for name in settings.authentication_providers))


def contradictory_authentication(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield keys that contradict each other while authentication is on, with value and reason."""
    if not settings.authentication_enabled:
        return
    names = settings.authentication_providers
    unknown = [name for name in names if name not in _NAMES]
    if unknown or not names:
        known = ", ".join(f"{name} ({full})" for name, full in PROVIDERS.items())
        which = f"there is no provider {unknown[0]}" if unknown else "a provider is required"
        yield "authenticationProviders", render(names), f"{which}: there are {known}"
        return
    providers = providers_of(settings)
    if TOKEN in providers and not (settings.token_secret_key or settings.token_public_key):
        why = "the provider token requires this key, or tokenPublicKey"
        yield "tokenSecretKey", "", why
    if settings.token_audience_claim and not settings.token_audience:
        yield "tokenAudience", "", "tokenAudienceClaim requires the audience of this broker"
    if BASIC in providers and not settings.basic_auth_conf:
        yield "basicAuthConf", "", "the provider basic requires the file of users and passwords"
    if OIDC in providers:
        yield from _contradictory_oidc(settings)


def _contradictory_oidc(settings: Settings) -> Iterator[tuple[str, str, str]]:
    issuers = settings.open_id_allowed_token_issuers
    if not issuers:
        yield "openIDAllowedTokenIssuers", "", "the provider oidc requires at least one issuer"
    if not settings.open_id_allowed_audiences:
        yield "openIDAllowedAudiences", "", "the provider oidc requires at least one audience"
    schemes = (
        ("https://",) if settings.open_id_require_issuers_use_https else ("https://", "http://")
    )
    wrong = [issuer for issuer in issuers if not issuer.startswith(schemes)]
    if wrong:
        why = f"{wrong[0]}: expected a URL that begins with {' or '.join(schemes)}"
        yield "openIDAllowedTokenIssuers", render(issuers), why
