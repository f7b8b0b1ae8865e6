"""The options of a producer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from magnetar.encryption.keys import KeyReader
from magnetar.encryption.sending import FAIL, ON_ENCRYPTION_FAILURE
from magnetar.producing.batching import BATCHED, COMPRESSIONS, BatchLimits
from magnetar.producing.interceptors import ProducerInterceptor
from magnetar.producing.routing import HASHES, MURMUR3, ROUND_ROBIN, ROUTINGS, Router
from magnetar.schema.auto import AutoConsume
from magnetar.schema.base import Schema
from magnetar_proto import PulsarApi_pb2 as pb

WAIT_FOR_EXCLUSIVE = "wait_for_exclusive"
ACCESS_MODES: dict[str, int] = {
    "shared": pb.Shared,
    "exclusive": pb.Exclusive,
    WAIT_FOR_EXCLUSIVE: pb.WaitForExclusive,
    "exclusive_with_fencing": pb.ExclusiveWithFencing,
}


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options of a producer; ValueError names the value that is invalid."""

    name: str | None = None
    """The name, unique on the topic; the broker generates one if it is None."""
    compression: str = "none"
    batching: BatchLimits = BATCHED
    key_batching: bool = False
    """Whether a batch holds messages of only one key, as Key_Shared subscriptions require."""
    chunking: bool = False
    """Whether a message too large for an entry is sent in chunks; else MessageTooLarge."""
    max_chunk_bytes: int | None = None
    """The limit of the payload of a chunk; None: as large as the broker accepts."""
    max_pending_messages: int = 10_000
    max_pending_bytes: int = 64 * 1024 * 1024
    send_timeout_s: float = 30.0
    schema: Schema[Any] | None = None
    """The schema of the values, from `magnetar.schema`; None means bytes. The broker refuses a
    schema that does not fit the topic's.
    """
    access_mode: str = "shared"
    """shared; exclusive: fails if there is another producer; wait_for_exclusive: opening waits for
    its turn; exclusive_with_fencing: closes the others with ProducerFenced."""
    routing: str | Router = ROUND_ROBIN
    """The routing of messages without key: round_robin, single, or a function; see `Routing`."""
    hashing: str = MURMUR3
    """The hash from keys to partitions: murmur3; java or cpp, the defaults of the official clients
    for Java and for C++, the latter also of those that wrap it, such as Python's."""
    lazy: bool = False
    """Whether all partitions but one are opened on first use."""
    initial_sequence_id: int | None = None
    """The last sequence id that was used; None: the one the broker has for the name, or -1."""
    initial_subscription: str | None = None
    """The subscription created with the topic, so that all of its messages are retained."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the producer that the broker shows in its statistics."""
    interceptors: Sequence[ProducerInterceptor] = ()
    """The interceptors, called in this order for every message."""
    encryption_keys: Sequence[str] = ()
    """The names of the keys with which messages are encrypted; empty: no encryption."""
    key_reader: KeyReader | None = None
    """The source of the public keys in `encryption_keys`."""
    on_encryption_failure: str = FAIL
    """The action without public keys; fail: opening the producer raises EncryptionFailed.
    send: messages are sent unencrypted, with a warning."""

    def __post_init__(self) -> None:
        if isinstance(self.schema, AutoConsume):
            raise ValueError("AutoConsume is for consumers and readers: producers take AutoProduce")
        if self.compression not in COMPRESSIONS:
            known = ", ".join(COMPRESSIONS)
            raise ValueError(f"compression {self.compression!r} is unknown; known are {known}")
        if self.max_pending_messages < 1 or self.max_pending_bytes < 1:
            raise ValueError(
                "max_pending_messages and max_pending_bytes must be at least 1, but are "
                f"{self.max_pending_messages} and {self.max_pending_bytes}"
            )
        if self.send_timeout_s <= 0:
            raise ValueError(f"send_timeout_s must be above 0, but is {self.send_timeout_s}")
        if self.max_chunk_bytes is not None and self.max_chunk_bytes < 1:
            raise ValueError(f"max_chunk_bytes must be at least 1, but is {self.max_chunk_bytes}")
        for what, value, known_ones in (
            ("access_mode", self.access_mode, ACCESS_MODES),
            ("hashing", self.hashing, HASHES),
            ("routing", self.routing, ROUTINGS),
            ("on_encryption_failure", self.on_encryption_failure, ON_ENCRYPTION_FAILURE),
        ):
            if isinstance(value, str) and value not in known_ones:
                raise ValueError(f"{what} {value!r} is unknown; known are {', '.join(known_ones)}")
        if isinstance(self.encryption_keys, str):
            raise ValueError(
                f"encryption_keys must be a list of names, but is {self.encryption_keys!r}"
            )
        if bool(self.encryption_keys) != (self.key_reader is not None):
            raise ValueError(
                "encryption needs both encryption_keys, the names of the keys, and key_reader, "
                "which has them"
            )
