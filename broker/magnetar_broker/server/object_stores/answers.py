"""The errors of obstore as errors of storage, with remedies and without anything secret.

The messages of obstore contain whole requests and answers, with signatures and key names, so only
the status, the error code and words of a fixed list are used.
"""

import os
import re
from typing import Final

from magnetar_broker.server.object_stores.places import CREDENTIALS, Place
from magnetar_storage.errors import AccessDenied, NoObject, StorageError, Unavailable

STATUS = re.compile(r"status code: (\d{3})\b")
CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")

MISSING: Final = frozenset({"NoSuchKey", "BlobNotFound"})
"""The error codes of S3, Google and Azure for a missing object.

Other answers with status 404 mean a missing bucket, an unknown user, or a server that is not a
store of objects at all: an object that was not found is reported as lost, so none of those count.
"""
NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"})
REFUSED: Final = frozenset({
    "AccessDenied", "AccountProblem", "AllAccessDisabled", "AuthenticationFailed",
    "AuthorizationFailure", "AuthorizationPermissionMismatch", "ExpiredToken",
    "ExpiredTokenException", "InvalidAccessKeyId", "InvalidAuthenticationInfo", "InvalidSecurity",
    "InvalidToken", "NotSignedUp", "RequestExpired", "RequestTimeTooSkewed",
    "SignatureDoesNotMatch", "TokenRefreshRequired", "XAdminUserNotFound",
})  # fmt: skip
"""The codes of answers to credentials that are wrong or expired, or do not suffice."""
OTHER_REGION: Final = frozenset({
    "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect",
})  # fmt: skip

FOR_CREDENTIALS = re.compile(
    r"Error performing token request|https?://(169\.254\.|sts\.)"
    r"|https?://[^/\s]+/(latest/(api/token|meta-data/)|computeMetadata/|metadata/identity/|msi/)"
)
"""A request for credentials, which is made to the machine where none are configured."""
REASONS: Final = (
    ("ConnectionRefused", "nothing accepts connections at the endpoint"),
    ("dns error", "the host name of the endpoint is not known"),
    ("ertificate", "the certificate of the endpoint is not trusted"),
    ("BadScheme", "the endpoint is neither http:// nor https://"),
    ("kind: Timeout", "there was no answer in time"),
    ("TimedOut", "there was no answer in time"),
    ("kind: Connect", "no connection to the endpoint could be made"),
    ("IncompleteBody", "the answer was cut off"),
    ("Interrupted", "the connection was closed before the end of the answer"),
    ("BareRedirect", "the bucket is in another region: name it with ?region="),
    ("NotPartial", "the answer was not the part that was requested: check the endpoint"),
    ("IncompleteMessage", "the connection was closed before the answer"),
    ("ConnectionReset", "the connection was closed before the answer"),
    ("kind: Request", "the request failed before its answer"),
    ("StorageFull", "the file system is full"),
    ("ReadOnlyFilesystem", "the file system is read-only"),
    ("IsADirectory", "there is a directory of that name"),
    ("NotADirectory", "a part of the name is a file"),
)
"""Words in the messages of obstore, and their meanings."""


NOT_SENT: Final = ("ConnectionRefused", "dns error", "ertificate", "BadScheme")
"""Words in the messages of obstore about requests of which no byte has reached a store."""
NOT_WRITTEN: Final = ("StorageFull", "ReadOnlyFilesystem", "IsADirectory", "NotADirectory")
"""Words in the messages of obstore about writes that a file system has refused."""
TRY_AGAIN: Final = frozenset({"408", "409", "412", "429"})
"""The answers among those to wrong requests that say nothing about the request."""


def is_refused(error: Exception, place: Place) -> bool:
    """Tell whether the error of a write proves that it did not take place, and never will."""
    text = str(error)
    status = _status(text)
    if status is not None:
        # promise[status.startswith("4") -> True]: an error of the server is an unknown outcome
        return status.startswith("4") and status not in TRY_AGAIN
    if place.scheme != "file":
        return any(word in text for word in NOT_SENT)
    return any(word in text for word in NOT_WRITTEN) or not os.path.isdir(place.prefix)


def knows_no_conditions(error: Exception) -> bool:
    """Tell whether a write was refused because the store does not know its condition."""
    return isinstance(error, NotImplementedError) or (
        # By name: importing the classes would load obstore wherever this module is used.
        type(error).__name__ == "NotSupportedError" or _code(str(error)) == "NotImplemented"
    )


def is_beyond_end(error: Exception) -> bool:
    """Tell whether a read was refused because it begins at or after the end of the object."""
    text = str(error)
    status = _status(text)
    return status == "416" or (status is None and "StartTooLarge" in text)


def explained(error: Exception, what: str, place: Place) -> StorageError:
    """Return the error of storage for an error of obstore; `what` is the request, in words."""
    if isinstance(error, StorageError):
        return error
    text = str(error)
    status, code = _status(text), _code(text)
    subject = f"{place.text}: cannot {what}"
    if place.scheme == "file" and not os.path.isdir(place.prefix):
        return Unavailable(f"{subject}: the directory is not there: mount it, or create it again")
    # promise[code in MISSING -> status == "404"]: an answer that may mean something else does not
    #   make an object a lost one
    if code in MISSING or (isinstance(error, FileNotFoundError) and place.scheme == "file"):
        return NoObject(f"{subject}: it does not exist")
    if _is_refusal(error, text, status, code):
        return AccessDenied(f"{subject}: {_refusal(text, status, code, place)}")
    return Unavailable(f"{subject}: {_reason(error, text, status, code)}")


def _is_refusal(error: Exception, text: str, status: str | None, code: str | None) -> bool:
    return (
        # By name, too.
        type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
        or code in REFUSED
        or status in ("401", "403")
        or (status is None and "PermissionDenied" in text)
        or _is_for_credentials(text)
    )


def _is_for_credentials(text: str) -> bool:
    # The first line has the address of the request that failed.
    return FOR_CREDENTIALS.search(text.partition("\n")[0]) is not None


def _refusal(text: str, status: str | None, code: str | None, place: Place) -> str:
    source = CREDENTIALS[place.scheme]
    if _is_for_credentials(text):
        return f"there are no credentials: set {source}"
    if place.scheme == "file":
        return f"the system denied access: check {source}"
    answer = " ".join(part for part in (status, code) if part) or "no valid credentials"
    hint = (
        "; without s3:ListBucket, S3 also denies access to missing objects"
        if place.scheme == "s3"
        else ""
    )
    return (
        f"access was denied ({answer}): check {source}, and the permissions to read, write, list"
        f" and delete objects there{hint}"
    )


def _reason(error: Exception, text: str, status: str | None, code: str | None) -> str:
    answer = " ".join(part for part in (status, code) if part)
    if code in NO_BUCKET:
        return f"the bucket does not exist ({answer}): create it, or correct the name"
    if code in OTHER_REGION:
        return f"the bucket is in another region ({answer}): name it with ?region="
    if status == "404":
        return (
            f"the answer was {answer}, which does not say that the object is missing:"
            " check the endpoint and the name of the bucket"
        )
    if status is not None:
        return f"the answer was {answer}"
    for word, meaning in REASONS:
        if word in text:
            return meaning
    return f"the request failed ({type(error).__name__})"


def _status(text: str) -> str | None:
    found = STATUS.search(text)
    return found[1] if found else None


def _code(text: str) -> str | None:
    found = CODE.search(text)
    return found[1] if found else None
