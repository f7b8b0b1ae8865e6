"""Values that several kinds of statistics have in common."""

from typing import Any

Json = dict[str, Any]
"""A JSON object; a field without a value is left out."""

COMPACTION = {
    "lastCompactionRemovedEventCount": 0,
    "lastCompactionSucceedTimestamp": 0,
    "lastCompactionFailedTimestamp": 0,
    "lastCompactionDurationTimeInMills": 0,
}
"""The fields of a topic that was not compacted."""

FILTERS = {
    f"filter{what}MsgCount": 0 for what in ("Processed", "Accepted", "Rejected", "Rescheduled")
}
"""The fields about entry filters, which do not exist here."""

OFFLOADING = {
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
}
"""The fields of a topic of which nothing was offloaded."""

TRANSACTIONS = {"ongoingTxnCount": 0, "abortedTxnCount": 0, "committedTxnCount": 0}
"""The fields of a topic without transactions."""


def address(peer: str) -> str:
    """Return the address of a client in Pulsar's form."""
    return f"/{peer}"


def position(ledger: int, entry: int) -> str:
    """Return the position of an entry as text."""
    return f"{ledger}:{entry}"
