"""The errors of the protocol layer.

ProtocolError
├── RemoteError          the peer broke the rules: close the connection
│   ├── BadFrame         the sizes of a frame contradict each other
│   │   └── FrameTooLarge  a frame above the agreed limit
│   ├── BadCommand       no known command, or one that lacks required fields
│   ├── BadMetadata      an entry without readable message metadata
│   ├── BadBatch         a batch that does not hold the messages it declares
│   └── BadCompression   a payload that does not inflate to its declared size
├── LocalError           we broke the rules: nothing was encoded
└── InvalidTopicName     also a ValueError: not a topic or namespace name
"""


class ProtocolError(Exception):
    """Base of all errors that this package raises."""


class RemoteError(ProtocolError):
    """The peer violated the protocol; close the connection."""


class BadFrame(RemoteError):
    """The sizes inside a frame contradict each other."""


class FrameTooLarge(BadFrame):
    """A frame announces more bytes than the agreed limit."""


class BadCommand(RemoteError):
    """A command that cannot be parsed, is unknown, or lacks required fields."""


class BadMetadata(RemoteError):
    """An entry whose message metadata is missing, truncated or incomplete."""


class BadBatch(RemoteError):
    """A batch body that does not hold the number of messages it declares."""


class BadCompression(RemoteError):
    """A payload that does not decompress to exactly its declared size."""


class LocalError(ProtocolError):
    """The caller violated the protocol; nothing was encoded."""


class InvalidTopicName(ProtocolError, ValueError):
    """Text that is not the name of a topic or a namespace."""
