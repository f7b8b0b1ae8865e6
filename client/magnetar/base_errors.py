"""Errors that need nothing of the protocol: `magnetar admin` has them without it."""

from typing import ClassVar


class MagnetarError(Exception):
    """Base of everything the client raises on purpose."""

    retriable: ClassVar[bool] = False


class CredentialsError(MagnetarError):
    """The credentials that the client should show cannot be had; no secret is in the text."""


class CredentialsUnavailable(CredentialsError):
    """An issuer of tokens does not answer: retried until the operation times out."""

    retriable = True
