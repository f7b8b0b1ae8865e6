"""What `import magnetar` offers."""

from magnetar.batching import BatchLimits
from magnetar.client import Client, connect
from magnetar.consumer import Consumer
from magnetar.errors import (
    BrokerError,
    Busy,
    Closed,
    ConnectionLost,
    Denied,
    IncompatibleSchema,
    InvalidName,
    MagnetarError,
    MessageTooLarge,
    NotAllowed,
    NotFound,
    NotReady,
    OperationTimeout,
    ProducerFenced,
    QueueFull,
    QuotaExceeded,
    TopicTerminated,
    Unreadable,
)
from magnetar.messages import Entry, Message, Outgoing
from magnetar.partition_producer import Receipt
from magnetar.producer import Producer
from magnetar.reader import EntryReader, Reader
from magnetar.settings import Settings
from magnetar_proto.ids import EARLIEST, LATEST, MessageId

__all__ = [
    "EARLIEST",
    "LATEST",
    "BatchLimits",
    "BrokerError",
    "Busy",
    "Client",
    "Closed",
    "ConnectionLost",
    "Consumer",
    "Denied",
    "Entry",
    "EntryReader",
    "IncompatibleSchema",
    "InvalidName",
    "MagnetarError",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "OperationTimeout",
    "Outgoing",
    "Producer",
    "ProducerFenced",
    "QueueFull",
    "QuotaExceeded",
    "Reader",
    "Receipt",
    "Settings",
    "TopicTerminated",
    "Unreadable",
    "connect",
]
