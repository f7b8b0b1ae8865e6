"""Words in refusals that official clients act on, which makes them part of the protocol.

docs/differences.md lists what each client does, and at which codes.
"""

UNLOADED = "is being unloaded"
"""The phrase in every refusal of a topic that is being closed.

The client in C++, and those built on it, keep their connection when a lookup is refused with it.
"""

NO_LISTENER = "the broker do not have {} listener"
"""The refusal of a lookup that names an unknown listener."""

GIVING_UP = (
    "TopicNotFound",
    "TopicTerminatedError",
    "ProducerBlockedQuotaExceededException",
    "ProducerFenced",
)
"""Names of errors at which the client in Go gives up a producer or consumer that reconnects.

It searches the whole text of any error for them, so no text of another refusal contains one.
"""
