"""The enumerations of the official client, with its names and numbers."""

from enum import IntEnum


class _Enum(IntEnum):
    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class BatchingType(_Enum):
    """The rule that groups messages into batches."""

    Default = 0
    KeyBased = 1


class CompressionType(_Enum):
    """The compression algorithm of payloads."""

    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


class ConsumerCryptoFailureAction(_Enum):
    """The action for a message that cannot be decrypted."""

    FAIL = 0
    DISCARD = 1
    CONSUME = 2


class ConsumerType(_Enum):
    """The way in which the consumers of a subscription divide its messages."""

    Exclusive = 0
    Shared = 1
    Failover = 2
    KeyShared = 3


class InitialPosition(_Enum):
    """The position at which a new subscription starts."""

    Latest = 0
    Earliest = 1


class KeySharedMode(_Enum):
    """The assignment of keys: by the broker, or by the consumers' ranges."""

    AutoSplit = 0
    Sticky = 1


class LoggerLevel(_Enum):
    """The lowest severity of the records that are written."""

    Debug = 0
    Info = 1
    Warn = 2
    Error = 3


class PartitionsRoutingMode(_Enum):
    """The rule that chooses the partition of a message without key."""

    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2


class ProducerAccessMode(_Enum):
    """The access of a producer to its topic: shared or exclusive."""

    Shared = 0
    Exclusive = 1
    WaitForExclusive = 2
    ExclusiveWithFencing = 3


class RegexSubscriptionMode(_Enum):
    """The domain of the topics that a pattern matches."""

    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


class Result(_Enum):
    """The outcome of an operation, as callbacks receive it."""

    Ok = 0
    UnknownError = 1
    InvalidConfiguration = 2
    Timeout = 3
    LookupError = 4
    ConnectError = 5
    ReadError = 6
    AuthenticationError = 7
    AuthorizationError = 8
    ErrorGettingAuthenticationData = 9
    BrokerMetadataError = 10
    BrokerPersistenceError = 11
    ChecksumError = 12
    ConsumerBusy = 13
    NotConnected = 14
    AlreadyClosed = 15
    InvalidMessage = 16
    ConsumerNotInitialized = 17
    ProducerNotInitialized = 18
    ProducerBusy = 19
    TooManyLookupRequestException = 20
    InvalidTopicName = 21
    InvalidUrl = 22
    ServiceUnitNotReady = 23
    OperationNotSupported = 24
    ProducerBlockedQuotaExceededError = 25
    ProducerBlockedQuotaExceededException = 26
    ProducerQueueIsFull = 27
    MessageTooBig = 28
    TopicNotFound = 29
    SubscriptionNotFound = 30
    ConsumerNotFound = 31
    UnsupportedVersionError = 32
    TopicTerminated = 33
    CryptoError = 34
    IncompatibleSchema = 35
    ConsumerAssignError = 36
    CumulativeAcknowledgementNotAllowedError = 37
    TransactionCoordinatorNotFoundError = 38
    InvalidTxnStatusError = 39
    NotAllowedError = 40
    TransactionConflict = 41
    TransactionNotFound = 42
    ProducerFenced = 43
    MemoryBufferIsFull = 44
    Interrupted = 45


class SchemaType(_Enum):
    """The kinds of schemas, with their numbers on the wire."""

    NONE = 0
    STRING = 1
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    BYTES = -1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    AUTO_CONSUME = -3
    AUTO_PUBLISH = -4
    KEY_VALUE = 15
    PROTOBUF_NATIVE = 20
