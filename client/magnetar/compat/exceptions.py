"""The exceptions of the official client, and their mapping from the errors of this client."""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from magnetar.base import errors
from magnetar.compat.enums import Result
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import InvalidTopicName as InvalidName

P = ParamSpec("P")
T = TypeVar("T")


class PulsarException(Exception):
    """The base class: `except pulsar.PulsarException` catches all errors of the client."""


class UnknownError(PulsarException):
    """The broker gave a reason that has no name of its own."""


class InvalidConfiguration(PulsarException):
    """A name or an option is invalid."""


class Timeout(PulsarException):
    """No answer or message came in time."""


class LookupError(PulsarException):
    """The broker that serves the topic could not be determined."""


class ConnectError(PulsarException):
    """The broker cannot be reached, or the connection was lost."""


class ReadError(PulsarException):
    """The connection could not be read."""


class AuthenticationError(PulsarException):
    """The broker does not accept the credentials."""


class AuthorizationError(PulsarException):
    """The role lacks this right."""


class ErrorGettingAuthenticationData(PulsarException):
    """The credentials are not available."""


class BrokerMetadataError(PulsarException):
    """The broker's metadata store failed."""


class BrokerPersistenceError(PulsarException):
    """The broker's message store failed."""


class ChecksumError(PulsarException):
    """The broker received a corrupt message."""


class ConsumerBusy(PulsarException):
    """Another consumer holds the subscription."""


class NotConnected(PulsarException):
    """The client is not connected at the moment."""


class AlreadyClosed(PulsarException):
    """The client, producer, consumer or reader was closed."""


class InvalidMessage(PulsarException):
    """A message cannot be decoded."""


class ConsumerNotInitialized(PulsarException):
    """The consumer is not open."""


class ProducerNotInitialized(PulsarException):
    """The producer is not open."""


class ProducerBusy(PulsarException):
    """Another producer uses the name."""


class TooManyLookupRequestException(PulsarException):
    """Too many lookups are pending at the broker."""


class InvalidTopicName(PulsarException):
    """The topic name is invalid."""


class InvalidUrl(PulsarException):
    """The service URL is invalid."""


class ServiceUnitNotReady(PulsarException):
    """The topic is not available at the moment."""


class OperationNotSupported(PulsarException):
    """The object, or `magnetar.compat`, does not support the operation: the text says which."""


class ProducerBlockedQuotaExceededError(PulsarException):
    """The backlog quota is exceeded."""


class ProducerBlockedQuotaExceededException(PulsarException):
    """The backlog quota is exceeded."""


class ProducerQueueIsFull(PulsarException):
    """The number of pending messages has reached its limit."""


class MessageTooBig(PulsarException):
    """The message is larger than the broker accepts."""


class TopicNotFound(PulsarException):
    """The topic does not exist."""


class SubscriptionNotFound(PulsarException):
    """The subscription does not exist."""


class ConsumerNotFound(PulsarException):
    """The consumer does not exist."""


class UnsupportedVersionError(PulsarException):
    """The broker does not support the request."""


class TopicTerminated(PulsarException):
    """The topic accepts no more messages."""


class CryptoError(PulsarException):
    """A message could not be encrypted or decrypted."""


class IncompatibleSchema(PulsarException):
    """The topic's schema is not compatible with this one."""


class ConsumerAssignError(PulsarException):
    """The broker could not assign the consumer a part of the keys."""


class CumulativeAcknowledgementNotAllowedError(PulsarException):
    """Shared subscriptions do not support cumulative acknowledgements."""


class TransactionCoordinatorNotFoundError(PulsarException):
    """The coordinator of the transaction does not exist."""


class InvalidTxnStatusError(PulsarException):
    """The transaction is in a state that does not permit the operation."""


class NotAllowedError(PulsarException):
    """The broker's configuration or policies forbid the request."""


class TransactionConflict(PulsarException):
    """Another transaction has acknowledged the message."""


class TransactionNotFound(PulsarException):
    """The transaction does not exist."""


class ProducerFenced(PulsarException):
    """Another producer has exclusive access to the topic."""


class MemoryBufferIsFull(PulsarException):
    """The client's memory limit is reached."""


class Interrupted(PulsarException):
    """The call was interrupted."""


_CODES: Final = frozenset(pb.ServerError.keys())
_BY_CODE: Final[dict[int, type[PulsarException]]] = {
    pb.ServerError.Value(one.__name__): one
    for one in PulsarException.__subclasses__()
    if one.__name__ in _CODES
} | {
    pb.MetadataError: BrokerMetadataError,
    pb.PersistenceError: BrokerPersistenceError,
    pb.ServiceNotReady: ServiceUnitNotReady,
    pb.TooManyRequests: TooManyLookupRequestException,
    pb.TopicTerminatedError: TopicTerminated,
    pb.TransactionCoordinatorNotFound: TransactionCoordinatorNotFoundError,
    pb.InvalidTxnStatus: InvalidTxnStatusError,
}
"""The exceptions by the code of the broker's refusal, whose name most of them have."""
_BY_KIND: Final[tuple[tuple[type[Exception], type[PulsarException]], ...]] = (
    (errors.Closed, AlreadyClosed),
    (errors.OperationTimeout, Timeout),
    (errors.ConnectionLost, ConnectError),
    (errors.TlsFailed, ConnectError),
    (errors.Insecure, ConnectError),
    (errors.WrongProtocol, ConnectError),
    (errors.CredentialsError, ErrorGettingAuthenticationData),
    (errors.QueueFull, ProducerQueueIsFull),
    (errors.MessageTooLarge, MessageTooBig),
    (errors.Damaged, ReadError),
    (errors.Unreadable, InvalidMessage),
    (InvalidName, InvalidTopicName),
)


def official(error: Exception) -> PulsarException:
    """Return the official exception for an error of this client, with the same text."""
    if isinstance(error, errors.BrokerError):
        return _BY_CODE.get(error.code, UnknownError)(str(error))
    for kind, exception in _BY_KIND:
        if isinstance(error, kind):
            return exception(str(error))
    return UnknownError(str(error) or type(error).__name__)


def result_of(error: Exception) -> Result:
    """Return the result that a callback of `send_async` receives."""
    exception = error if isinstance(error, PulsarException) else official(error)
    return Result[type(exception).__name__]


def translated(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that it raises the official exceptions."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except (errors.MagnetarError, InvalidName) as error:
            raise official(error) from error

    return call


def unsupported(option: str, remedy: str) -> OperationNotSupported:
    """Return the error for an option that `magnetar.compat` does not support."""
    return OperationNotSupported(f"{option} is not supported by magnetar.compat: {remedy}")
