"""Errors of the source that a user can correct."""

import magnetar


class DataLoss(magnetar.MagnetarError):
    """Messages that the query had still to read were deleted."""


REMEDY = (
    "keep messages for longer (retention, or a subscription: option 'subscription'), and start the "
    "query with a new checkpoint; or go on without them (option 'failOnDataLoss' false)"
)


class TopicMissing(magnetar.MagnetarError):
    """A topic of the options does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic} does not exist: create it, or have the query wait for it (option "
            "'waitingForNonExistedTopic' true)"
        )
