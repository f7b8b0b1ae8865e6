"""The handshake of links between machines: with fake wires, in pieces, and with hostile bytes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.ipc.frames import encode
from magnetar_broker.ipc.handshake import GREETING_BYTES, MAGIC, Greeting, Handshake, objection

B1 = Greeting("c-1", "b1", "worker-0", "0.1.0")
B2 = Greeting("c-1", "b2", "controller", "0.2.0")


class Side:
    """One side, with what it has written."""

    def __init__(self, own: Greeting, refuses: str = "") -> None:
        self.output = bytearray()
        self.handshake = Handshake(own, self.output.extend, lambda _: refuses)
        self.handshake.begin()

    def taken(self) -> bytes:
        taken = bytes(self.output)
        self.output.clear()
        return taken

    def read(self, data: bytes, step: int) -> bytes:
        return b"".join(
            self.handshake.receive(data[at : at + step]) for at in range(0, len(data), step)
        )

    @property
    def state(self) -> tuple[bool, str]:
        return self.handshake.is_over, self.handshake.refusal


def shake(left: Side, right: Side, step: int = 1 << 20) -> None:
    while left.output or right.output:
        to_right, to_left = left.taken(), right.taken()
        assert right.read(to_right, step) + left.read(to_left, step) == b""


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_two_brokers_of_a_cluster_accept_each_other(step: int) -> None:
    left, right = Side(B1), Side(B2)
    shake(left, right, step)
    assert left.state == right.state == (True, "")
    assert (left.handshake.peer, right.handshake.peer) == (B2, B1)


@pytest.mark.parametrize(
    ("peer", "why"),
    [
        (
            replace(B2, cluster="c-2"),
            "controller of broker b2 (version 0.2.0) belongs to cluster c-2, and worker-0 of "
            "broker b1 (version 0.1.0) belongs to cluster c-1: all brokers of a cluster use the "
            "same metadata store",
        ),
        (
            replace(B2, least_level=2, level=4),
            "controller of broker b2 (version 0.2.0) has feature levels 2 to 4, and worker-0 of "
            "broker b1 (version 0.1.0) has feature levels 1 to 1: upgrade the broker with the "
            "lower ones to a version in between",
        ),
    ],
)
def test_incompatible_brokers_say_the_same_at_both_ends(peer: Greeting, why: str) -> None:
    left, right = Side(B1), Side(peer)
    shake(left, right)
    assert left.state == right.state == (True, why)


@pytest.mark.parametrize(
    ("left", "right", "compatible"),
    [((1, 1), (1, 2), True), ((1, 2), (2, 3), True), ((1, 2), (3, 3), False)],
)
def test_levels_that_overlap_are_compatible(
    left: tuple[int, int], right: tuple[int, int], compatible: bool
) -> None:
    one = replace(B1, least_level=left[0], level=left[1])
    other = replace(B2, least_level=right[0], level=right[1])
    assert objection(one, other) == objection(other, one)
    assert (objection(one, other) == "") is compatible


def test_the_refused_side_knows_why() -> None:
    left, right = Side(B1), Side(B2, refuses="it is not the broker that this address is of")
    shake(left, right)
    assert right.state == (True, "it is not the broker that this address is of")
    assert left.state == (
        True,
        "controller of broker b2 (version 0.2.0) refuses it: it is not the broker that this "
        "address is of",
    )


@pytest.mark.parametrize("step", [1, 5, 1 << 20])
def test_bytes_behind_the_handshake_are_those_of_the_link(step: int) -> None:
    left, right = Side(B1), Side(B2)
    right.handshake.receive(left.taken())
    assert left.read(right.taken() + b"of the link", step) == b"of the link"
    assert left.state == (True, "")


def test_what_a_refused_peer_sends_behind_is_dropped() -> None:
    side = Side(B1)
    assert side.handshake.receive(encode((MAGIC, {**GREETING, "cluster": "x"})) + b"more") == b""
    assert side.handshake.refusal


GREETING = {
    "cluster": "c-1", "broker": "b2", "process": "p", "version": "v", "least_level": 1, "level": 1,
}  # fmt: skip


def test_fields_of_a_later_version_are_ignored() -> None:
    side = Side(B1)
    side.handshake.receive(encode((MAGIC, {**GREETING, "later": [1], 5: None})))
    assert side.handshake.peer == Greeting("c-1", "b2", "p", "v") and not side.handshake.refusal


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a message of 1195725856 bytes: expected at most 4096"),
        ((GREETING_BYTES + 1).to_bytes(4, "big"), f"expected at most {GREETING_BYTES}"),
        (b"\0\0\0\1\xff", "a message that cannot be read"),
        (encode(("magnetar-other", GREETING)), "a message that is not a greeting"),
        (encode((MAGIC,)), "a message that is not a greeting"),
        (encode((MAGIC, [1])), "a message that is not a greeting"),
        (encode((MAGIC, {**GREETING, "broker": b"b2"})), "a greeting without broker"),
        (encode((MAGIC, {**GREETING, "level": True})), "a greeting without level"),
        (encode((MAGIC, {})), "a greeting without cluster"),
        (encode((MAGIC, GREETING)) + encode((0, 1, "ask", ())), "a message that is not a verdict"),
        (encode((MAGIC, GREETING)) + encode((None,)), "a message that is not a verdict"),
    ],
)
def test_other_bytes_are_refused(sent: bytes, why: str) -> None:
    side = Side(B1)
    assert side.handshake.receive(sent) == b""
    is_over, refusal = side.state
    assert is_over and refusal.startswith("it does not greet as a broker does: ")
    assert why in refusal


@given(
    pieces=st.lists(
        st.binary(max_size=60)
        | st.sampled_from([encode((MAGIC, GREETING)), encode(("",)), encode(("no",))]),
        max_size=6,
    ),
    step=st.integers(1, 50),
)
@settings(max_examples=examples(300))
def test_any_bytes_have_the_same_outcome_however_they_are_cut(
    pieces: list[bytes], step: int
) -> None:
    data = b"".join(pieces)
    whole, cut = Side(B1), Side(B1)
    assert (whole.read(data, 1 << 20), whole.state) == (cut.read(data, step), cut.state)
    assert whole.output == cut.output
