"""The ways to authenticate: `magnetar.connect(url, auth=magnetar.auth.Token(path))`."""

from typing import TYPE_CHECKING

from magnetar.security.authentication import Authentication, Basic, Certificate, Token

if TYPE_CHECKING:
    from magnetar.security.oauth2 import OAuth2

__all__ = ["Authentication", "Basic", "Certificate", "OAuth2", "Token"]


def __getattr__(name: str) -> object:
    """Import OAuth2 when it is first used: it needs an HTTP client."""
    if name == "OAuth2":
        from magnetar.security.oauth2 import OAuth2  # noqa: PLC0415

        return OAuth2
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
