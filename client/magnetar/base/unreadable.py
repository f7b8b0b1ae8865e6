"""The actions for received entries that cannot be decoded or decrypted."""

FAIL, SKIP, DISCARD = "fail", "skip", "discard"
ON_UNREADABLE = (FAIL, SKIP, DISCARD)
"""The actions for an entry that cannot be decoded.

fail: `receive` raises `Unreadable` in its place; the next call continues after it.
skip: it is left out.
discard: it is left out and acknowledged, so that the broker does not deliver it again.

With fail and skip it stays unacknowledged: the broker delivers it again to the next consumer.
Each one is counted, and logged with its message id and the reason.
"""

CONSUME = "consume"
ON_UNDECRYPTABLE = (FAIL, DISCARD, CONSUME)
"""The actions for an encrypted entry that no key decrypts.

fail: `on_unreadable` decides, as for an entry that cannot be decoded; the broker redelivers it
after the ack timeout, if there is one.
discard: it is left out and acknowledged.
consume: it is received as one message, even if it is a batch or a chunk: its value is the stored
payload, and `is_encrypted` is true.
"""
