"""What producers may be required to do, and to bring: encryption, initial subscriptions."""

from conformance.trace import Peer, Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata


def _requires_encryption(t: Trace) -> None:
    namespace = t.has_namespace()
    t.has_policy(namespace, "encryptionRequired", True)
    t.topic = f"persistent://{namespace}/{t.token}"


def _sends_encrypted(peer: Peer, sequence_id: int) -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    entry = encode_entry(metadata(sequence_id, encryption_keys=keys), b"secret")
    peer.sends_entry(sequence_id, entry)
    peer.awaits_outcome()


def a_producer_that_does_not_encrypt(t: Trace) -> None:
    _requires_encryption(t)
    a = t.connects()
    a.produces(producer_name="me")
    a.produces(producer_name="me", encrypted=True)


def a_message_that_is_encrypted(t: Trace) -> None:
    _requires_encryption(t)
    a = t.connects()
    a.produces(encrypted=True)
    _sends_encrypted(a, 0)


def a_message_that_is_not_encrypted(t: Trace) -> None:
    _requires_encryption(t)
    a = t.connects()
    a.produces(encrypted=True)
    _sends_encrypted(a, 0)
    a.sends(1)
    a.awaits_outcome()
    _sends_encrypted(a, 2)


def an_initial_subscription_is_made(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(initial_subscription_name="sub")
    a.publishes(2)
    b.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    b.permits(10)
    b.receives(2)


def an_initial_subscription_begins_with_what_is_there(t: Trace) -> None:
    a, b = t.publisher(2), t.connects()
    b.produces(initial_subscription_name="sub")
    b.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    b.permits(10)
    b.receives(2)
    a.publishes(1, first=2)
    b.receives()


def an_initial_subscription_that_is_there_stays(t: Trace) -> None:
    a, b = t.publisher(2), t.connects()
    b.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    b.permits(10)
    b.produces(initial_subscription_name="sub")
    a.publishes(1, first=2)
    b.receives()


def an_initial_subscription_of_a_topic_that_keeps_nothing(t: Trace) -> None:
    t.topic = t.topic.replace("persistent", "non-persistent")
    a = t.connects()
    a.produces(initial_subscription_name="sub")
    a.publishes()


def an_initial_subscription_of_a_refused_producer(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces(producer_name="me")
    b.produces(producer_name="me", initial_subscription_name="sub")
    a.publishes()
    b.subscribes(initialPosition=pb.CommandSubscribe.Latest)
    b.permits(10)
    b.receives_rest()
