"""The memory of a connection: there can be very many, most of them idle."""

from fakes.sessions import SessionWorld, produce
from magnetar_broker.limits.admission import AdmittedConnection
from magnetar_broker.server.clients.listener import ClientConnection


def test_no_part_of_a_connection_has_a_dictionary_of_its_attributes() -> None:
    client = SessionWorld().client()
    client.ask(produce(1))
    session = client.session
    publishing = session.publishing
    producer = publishing.producers[1]
    parts = (
        session, publishing, publishing.producers, session.consumers,
        session._output, session._liveness, session._gate,
        session._acks, session._decoder,
        producer, producer.receipts, producer.meter,
    )  # fmt: skip
    types = [*map(type, parts), ClientConnection, AdmittedConnection]
    assert [one.__name__ for one in types if one.__dictoffset__ != 0] == []


def test_connections_share_what_is_the_same_for_all() -> None:
    world = SessionWorld()
    one, other = world.client().session, world.client().session
    assert one.consumers._limit is other.consumers._limit
    assert one.publishing.producers._limit is other.publishing.producers._limit


def test_nothing_is_left_of_the_requests_that_opened_producers() -> None:
    client = SessionWorld().client()
    client.ask(produce(1))
    assert client.session.publishing.producers._creating is None
    assert client.session.publishing.producers.holds(1)
