"""The exceptions of the official client, and which of them an error of ours becomes."""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from magnetar import errors
from magnetar.compat.enums import Result
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import InvalidTopicName as InvalidName

P = ParamSpec("P")
T = TypeVar("T")


class PulsarException(Exception):
    """Base of all: `except pulsar.PulsarException` catches what the client raises."""


class UnknownError(PulsarException):
    """The broker gave no reason that has a name."""


class InvalidConfiguration(PulsarException):
    """A name or option is not possible."""


class Timeout(PulsarException):
    """No answer or message came in time."""


class LookupError(PulsarException):
    """Which broker serves the topic could not be found out."""


class ConnectError(PulsarException):
    """There is no connection to the broker, or it broke."""


class ReadError(PulsarException):
    """The connection could not be read."""


class AuthenticationError(PulsarException):
    """The broker does not accept the credentials."""


class AuthorizationError(PulsarException):
    """The role lacks this right."""


class ErrorGettingAuthenticationData(PulsarException):
    """The credentials to show cannot be had."""


class BrokerMetadataError(PulsarException):
    """The broker has trouble with its metadata."""


class BrokerPersistenceError(PulsarException):
    """The broker has trouble with its storage."""


class ChecksumError(PulsarException):
    """The broker received a damaged message."""


class ConsumerBusy(PulsarException):
    """Another consumer has the subscription."""


class NotConnected(PulsarException):
    """There is no connection at the moment."""


class AlreadyClosed(PulsarException):
    """The client, producer, consumer or reader was closed."""


class InvalidMessage(PulsarException):
    """A message cannot be decoded."""


class ConsumerNotInitialized(PulsarException):
    """The consumer was not opened."""


class ProducerNotInitialized(PulsarException):
    """The producer was not opened."""


class ProducerBusy(PulsarException):
    """Another producer has the name."""


class TooManyLookupRequestException(PulsarException):
    """The broker has too many lookups to answer."""


class InvalidTopicName(PulsarException):
    """The name is not that of a topic."""


class InvalidUrl(PulsarException):
    """The URL is not that of a service."""


class ServiceUnitNotReady(PulsarException):
    """The topic is not served right now."""


class OperationNotSupported(PulsarException):
    """It is not possible with this object, or not in `magnetar.compat`: the text says which."""


class ProducerBlockedQuotaExceededError(PulsarException):
    """The backlog quota is used up."""


class ProducerBlockedQuotaExceededException(PulsarException):
    """The backlog quota is used up."""


class ProducerQueueIsFull(PulsarException):
    """As many messages are pending as the options allow."""


class MessageTooBig(PulsarException):
    """The message is larger than the broker accepts."""


class TopicNotFound(PulsarException):
    """There is no such topic."""


class SubscriptionNotFound(PulsarException):
    """There is no such subscription."""


class ConsumerNotFound(PulsarException):
    """There is no such consumer."""


class UnsupportedVersionError(PulsarException):
    """The broker does not know this."""


class TopicTerminated(PulsarException):
    """The topic accepts no more messages."""


class CryptoError(PulsarException):
    """A message could not be encrypted or decrypted."""


class IncompatibleSchema(PulsarException):
    """The topic's schema does not allow this one."""


class ConsumerAssignError(PulsarException):
    """The broker could not give the consumer its part of the keys."""


class CumulativeAcknowledgementNotAllowedError(PulsarException):
    """Shared subscriptions have no cumulative acknowledgements."""


class TransactionCoordinatorNotFoundError(PulsarException):
    """There is no coordinator of the transaction."""


class InvalidTxnStatusError(PulsarException):
    """The transaction is in another state."""


class NotAllowedError(PulsarException):
    """The broker's configuration or policies forbid it."""


class TransactionConflict(PulsarException):
    """Another transaction has acknowledged the message."""


class TransactionNotFound(PulsarException):
    """There is no such transaction."""


class ProducerFenced(PulsarException):
    """Another producer has the topic for itself."""


class MemoryBufferIsFull(PulsarException):
    """The client holds as many bytes as its options allow."""


class Interrupted(PulsarException):
    """The call was interrupted."""


_BY_CODE: Final[dict[int, type[PulsarException]]] = {
    pb.MetadataError: BrokerMetadataError,
    pb.PersistenceError: BrokerPersistenceError,
    pb.AuthenticationError: AuthenticationError,
    pb.AuthorizationError: AuthorizationError,
    pb.ConsumerBusy: ConsumerBusy,
    pb.ServiceNotReady: ServiceUnitNotReady,
    pb.ProducerBlockedQuotaExceededError: ProducerBlockedQuotaExceededError,
    pb.ProducerBlockedQuotaExceededException: ProducerBlockedQuotaExceededException,
    pb.ChecksumError: ChecksumError,
    pb.UnsupportedVersionError: UnsupportedVersionError,
    pb.TopicNotFound: TopicNotFound,
    pb.SubscriptionNotFound: SubscriptionNotFound,
    pb.ConsumerNotFound: ConsumerNotFound,
    pb.TooManyRequests: TooManyLookupRequestException,
    pb.TopicTerminatedError: TopicTerminated,
    pb.ProducerBusy: ProducerBusy,
    pb.InvalidTopicName: InvalidTopicName,
    pb.IncompatibleSchema: IncompatibleSchema,
    pb.ConsumerAssignError: ConsumerAssignError,
    pb.TransactionCoordinatorNotFound: TransactionCoordinatorNotFoundError,
    pb.InvalidTxnStatus: InvalidTxnStatusError,
    pb.NotAllowedError: NotAllowedError,
    pb.TransactionConflict: TransactionConflict,
    pb.TransactionNotFound: TransactionNotFound,
    pb.ProducerFenced: ProducerFenced,
}
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
    """The exception that stands for an error of ours; its text is kept."""
    if isinstance(error, errors.BrokerError):
        return _BY_CODE.get(error.code, UnknownError)(str(error))
    for kind, exception in _BY_KIND:
        if isinstance(error, kind):
            return exception(str(error))
    return UnknownError(str(error) or type(error).__name__)


def result_of(error: Exception) -> Result:
    """What a callback of `send_async` is told."""
    exception = error if isinstance(error, PulsarException) else official(error)
    return Result[type(exception).__name__]


def translated(function: Callable[P, T]) -> Callable[P, T]:
    """Raises the official exceptions in the place of ours."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except (errors.MagnetarError, InvalidName) as error:
            raise official(error) from error

    return call


def unsupported(option: str, remedy: str) -> OperationNotSupported:
    """The error for what `magnetar.compat` does not have."""
    return OperationNotSupported(f"{option} is not supported by magnetar.compat: {remedy}")
