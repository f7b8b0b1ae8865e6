"""The names of entries on the wire: a position is a ledger and an entry of that ledger."""

Position = tuple[int, int]
"""(ledger, entry) as on the wire; entry -1 is the place before a ledger's first entry."""

NOWHERE: Position = (-1, -1)
"""The position in a log that has no ledger."""
