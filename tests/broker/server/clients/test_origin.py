"""The header of a client that one worker passes to another."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.workers import connect_frame
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.server.clients.origin import ON_ITS_OWN, Origin, PassedClient

ROLES = st.none() | st.builds(Roles, st.text(), st.none() | st.text())
ORIGINS = st.builds(Origin, st.text(), st.booleans(), st.binary(max_size=5000), ROLES)


@given(ORIGINS, st.integers(0, 300), st.binary(max_size=20), st.data())
def test_head_and_frame_are_collected_and_no_byte_behind_them(
    origin: Origin, filler: int, behind: bytes, data: st.DataObject
) -> None:
    frame = connect_frame("pulsar://b:1", filler)
    sent = origin.encoded() + frame
    stream, passed, at = sent + behind, PassedClient(), 0
    while lacks := passed.lacks:
        piece = stream[at : at + data.draw(st.integers(1, lacks))]
        passed.add(piece)
        at += len(piece)
    assert (passed.origin, passed.frame, at) == (origin, frame, len(sent))


def test_a_connection_without_tls_has_the_address_of_its_socket() -> None:
    assert Origin("", is_upstream=False, certificate=b"", roles=None) == ON_ITS_OWN
