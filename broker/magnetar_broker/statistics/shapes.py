"""Values that several kinds of statistics have in common."""

from typing import Any

Json = dict[str, Any]
"""An object; a field without a value is left out."""

COMPACTION = {
    "lastCompactionRemovedEventCount": 0,
    "lastCompactionSucceedTimestamp": 0,
    "lastCompactionFailedTimestamp": 0,
    "lastCompactionDurationTimeInMills": 0,
}
"""Of a topic that was not compacted."""

FILTERS = {
    f"filter{what}MsgCount": 0 for what in ("Processed", "Accepted", "Rejected", "Rescheduled")
}
"""There are no entry filters."""

OFFLOADING = {
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
}
"""Nothing is offloaded."""

TRANSACTIONS = {"ongoingTxnCount": 0, "abortedTxnCount": 0, "committedTxnCount": 0}
"""Of a topic that has none."""


def address(peer: str) -> str:
    """The address of a client, in the form of the original."""
    return f"/{peer}"


def position(ledger: int, entry: int) -> str:
    """The place of an entry."""
    return f"{ledger}:{entry}"
