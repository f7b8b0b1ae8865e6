"""Errors that do not depend on the protocol: `magnetar admin` works without it."""

from typing import ClassVar


class MagnetarError(Exception):
    """The base class of all errors of the client."""

    retriable: ClassVar[bool] = False


class CredentialsError(MagnetarError):
    """The credentials of the client are not available; the text contains no secret."""


class CredentialsUnavailable(CredentialsError):
    """An issuer of tokens does not answer; retried until the operation times out."""

    retriable = True
