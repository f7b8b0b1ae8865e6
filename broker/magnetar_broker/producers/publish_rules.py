"""The rules that a topic has for every message that is published to it."""

from magnetar_proto.entries import COPY_LIMIT


class PublishRules:
    """The demands of a topic's policies and limits on every message."""

    __slots__ = ("max_delay_ms", "max_message_size", "must_encrypt", "transactional", "usual_size")

    def __init__(
        self,
        must_encrypt: bool = False,
        max_message_size: int = 0,
        max_delay_ms: int = 0,
        transactional: bool = False,
    ) -> None:
        self.must_encrypt = must_encrypt
        """Whether messages that are not encrypted are refused."""
        self.max_message_size = max_message_size
        """The largest entry that is accepted, in bytes, except chunks; 0 means no limit."""
        self.max_delay_ms = max_delay_ms
        """The longest delay of a message after its publish time, in ms; 0 means no limit."""
        self.transactional = transactional
        """Whether the topic has seen transactions: then metadata must not pretend to be in one."""
        self.usual_size = COPY_LIMIT
        """The size below which only two things of an entry are checked: its checksum, and on a
        transactional topic whether its metadata names a transaction."""
        # Every entry needs the slow checks: encryption is seen in the metadata only.
        if must_encrypt:
            self.usual_size = 0
        elif max_message_size > 0:
            self.usual_size = min(COPY_LIMIT, max_message_size)
