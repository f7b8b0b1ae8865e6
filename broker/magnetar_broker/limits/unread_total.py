"""The limit of all topics' unread messages: stored messages that no subscription has acknowledged.

Each check of all topics adds up the messages that each topic keeps.  If the total exceeds the
limit, the oldest messages are given up, and the next check deletes them: the log and the metrics
show it before it happens.
"""

import logging
from typing import Final

from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)

DISK_PART: Final = 4
"""The divisor of the disk's size: unread messages take a quarter of it at most, if limited."""
NEAR_PERCENT: Final = 80
"""The percentage of a topic's own limit from which its unread messages cause a warning."""


class UnreadTotal:
    """The unread messages that are kept of all topics of a process."""

    def __init__(self, limit_bytes: int, workers: int = 1) -> None:
        """`workers` is the number of processes that share the disk."""
        self.limit_bytes = limit_bytes
        """The limit of the bytes of all topics' unread messages; -1 means no limit."""
        self._workers = workers
        self.kept_bytes = 0
        """The bytes of unread messages at the last check, without the topics' open ledgers."""
        self.given_up_ms = 0
        """Unread messages whose ledgers were closed at this time or before are deleted."""
        self.deleted_bytes = 0
        """The bytes of unread messages that were deleted since the start."""
        self._found: dict[TopicName, list[tuple[int, int]]] = {}  # in the present check
        self._near: set[TopicName] = set()  # topics that the last check warned about
        self._near_now: set[TopicName] = set()

    def add(self, topic: TopicName, kept: list[tuple[int, int]], limit_bytes: int) -> None:
        """Count the unread messages of a topic, as pairs of a ledger's closing time and its bytes.

        `limit_bytes` is the topic's own limit, -1 for no limit.
        """
        self._found[topic] = kept
        size = sum(size for _, size in kept)
        if limit_bytes < 0 or size * 100 < limit_bytes * NEAR_PERCENT:
            return
        self._near_now.add(topic)
        if topic not in self._near:
            logger.warning(
                "%s has %d MB that no subscription has acknowledged; above %d MB the oldest are "
                "deleted: subscribe, or raise magnetarUnreadMessagesRetentionSizeInMB",
                topic, size >> 20, limit_bytes >> 20,
            )  # fmt: skip

    def delete(self, topic: TopicName, ledgers: int, size: int) -> None:
        """Count and log unread messages of a topic that are deleted now."""
        self.deleted_bytes += size
        logger.warning(
            "%d ledgers of %s with %d bytes are deleted though no subscription has acknowledged "
            "all of them: older than magnetarUnreadMessagesRetentionMinutes, or above its sizes",
            ledgers, topic, size,
        )  # fmt: skip

    def change(self, limit_bytes: int) -> None:
        """Follow a changed limit; messages given up for the former one are judged again."""
        if limit_bytes != self.limit_bytes:
            self.limit_bytes = limit_bytes
            # promise: a limit that is raised in time keeps what it kept
            self.given_up_ms = 0

    def end_check(self, disk_bytes: int = 0) -> None:
        """Decide what the next check deletes; call it when all topics have been counted.

        `disk_bytes` is the size of the disk, a quarter of which is a limit of all processes as
        well; 0 if it is not known.
        """
        found = sorted(ledger for ledgers in self._found.values() for ledger in ledgers)
        self._found = {}
        self._near, self._near_now = self._near_now, set()
        self.kept_bytes = left = sum(size for _, size in found)
        self.given_up_ms = 0
        limit = self.limit_bytes
        if limit < 0:
            return
        if disk_bytes:
            limit = min(limit, disk_bytes // DISK_PART // self._workers)
        for sealed_ms, size in found:
            if left <= limit:
                break
            left -= size
            self.given_up_ms = sealed_ms
        if self.given_up_ms:
            logger.warning(
                "%d MB are kept of all topics that no subscription has acknowledged; the oldest "
                "above %d MB are deleted at the next check: subscribe, or raise "
                "magnetarUnreadMessagesRetentionTotalSizeInMB",
                self.kept_bytes >> 20, limit >> 20,
            )  # fmt: skip
