"""The treatment of entries that cannot be decoded or decrypted."""

import logging
from typing import Any

from magnetar.base.errors import DecryptionFailed, Unreadable
from magnetar.base.log_fields import about
from magnetar.base.unreadable import DISCARD, FAIL
from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.inbox import Failure
from magnetar.consuming.subscriber import Subscriber

logger = logging.getLogger(__name__)


class UnreadableEntries:
    """Counts and logs unreadable entries, and applies `on_unreadable` or `on_undecryptable`.

    An error is queued in their place, or they are acknowledged, or left out.
    """

    def __init__(self, subscriber: Subscriber[Any], ack_sender: AckSender) -> None:
        self._subscriber = subscriber
        self._options = subscriber.options
        self._ack_sender = ack_sender

    def report(
        self,
        error: Unreadable,
        positions: list[tuple[int, int]],
        permits: int,
        action: str | None = None,
    ) -> bool:
        """Treat an unreadable entry; tell whether its error is queued for the application.

        `action` is used in place of the subscription's on_unreadable.
        """
        if action is None:
            action = self._options.on_unreadable
            if isinstance(error, DecryptionFailed) and self._options.on_undecryptable == DISCARD:
                action = DISCARD
        subscriber = self._subscriber
        subscriber.counts.unreadable_entries += 1
        fields = about(
            topic=subscriber.topic,
            subscription=self._options.name,
            message_id=error.message_id.text(),
        )
        logger.warning("%s (on_unreadable=%s)", error, action, extra=fields)
        if action == FAIL:
            subscriber.inbox.put_failure(Failure(error, subscriber.source, permits))
        elif action == DISCARD:
            self._ack_sender.ack_entries(positions)
        return action == FAIL
