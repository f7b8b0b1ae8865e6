"""Watchers of topic lists: what sessions answer, and send unrequested."""

from typing import Any

from fakes.sessions import Client, SessionWorld, produce
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.hashes import topics_hash
from magnetar_proto.names import TopicName

NAMESPACE = "public/default"
ONE, TWO = (f"persistent://{NAMESPACE}/{local}" for local in ("one", "two"))


def watch(request_id: int = 1, watcher_id: int = 1, pattern: str = ".*", **more: Any) -> Any:
    return pb.CommandWatchTopicList(
        request_id=request_id,
        watcher_id=watcher_id,
        namespace=NAMESPACE,
        topics_pattern=pattern,
        **more,
    )


def watching(world: SessionWorld) -> Client:
    client = world.client()
    assert isinstance(client.ask(watch()), pb.CommandWatchTopicListSuccess)
    return client


def test_a_new_topic_is_reported_before_its_producer_may_publish() -> None:
    world = SessionWorld()
    client, other = watching(world), world.client()
    other.ask(produce(1, topic=ONE))
    (update,) = client.received()
    assert (update.watcher_id, list(update.new_topics)) == (1, [ONE])
    assert update.topics_hash == topics_hash([ONE])


def test_a_client_that_does_not_read_is_sent_the_outcome() -> None:
    world = SessionWorld()
    client, events = watching(world), world.directory.events
    names = [TopicName.parse(name) for name in (ONE, TWO)]
    client.session.wrote(peer_full=True)
    for name in names:
        events.notify(name, True)
        world.clock.advance(1)
    events.notify(names[0], False)
    world.clock.advance(1)
    assert client.received() == []
    client.session.wrote(peer_full=False)
    (update,) = client.received()
    assert (list(update.new_topics), list(update.deleted_topics)) == ([TWO], [])


def test_a_topic_that_is_created_again_is_first_reported_as_deleted() -> None:
    world = SessionWorld()
    events, name = world.directory.events, TopicName.parse(ONE)
    events.notify(name, True)
    world.client().ask(produce(1, topic=ONE))
    client = watching(world)
    client.session.wrote(peer_full=True)
    events.notify(name, False)
    events.notify(name, True)
    world.clock.advance(1)
    client.session.wrote(peer_full=False)
    gone, made = client.received()
    assert (list(gone.deleted_topics), list(gone.new_topics)) == ([ONE], [])
    assert (list(made.deleted_topics), list(made.new_topics)) == ([], [ONE])


def test_there_are_so_many_watchers_a_connection() -> None:
    world = SessionWorld(magnetar_max_topic_watchers_per_connection=1)
    client = watching(world)
    refused = client.ask(watch(2, watcher_id=2))
    assert refused.error == pb.NotAllowedError
    assert "magnetarMaxTopicWatchersPerConnection" in refused.message
    assert isinstance(client.ask(watch(3)), pb.CommandWatchTopicListSuccess)
    client.ask(pb.CommandWatchTopicListClose(request_id=4, watcher_id=1))
    assert isinstance(client.ask(watch(5, watcher_id=2)), pb.CommandWatchTopicListSuccess)


def test_a_client_that_has_gone_watches_nothing() -> None:
    world = SessionWorld()
    client, late = watching(world), world.client()
    (listed,) = world.directory.lists._lists.values()
    assert len(listed.watchers) == 1
    client.session.lost()
    late.send(watch(pattern=".*/a"))
    late.session.lost()
    world.clock.pump()
    assert [one.watchers for one in world.directory.lists._lists.values()] == [set(), set()]


def test_patterns_are_left_to_clients_where_that_is_wanted() -> None:
    world = SessionWorld(enable_broker_side_subscription_pattern_evaluation=False)
    client = world.client()
    client.ask(produce(1, topic=ONE))
    listed = client.ask(
        pb.CommandGetTopicsOfNamespace(request_id=2, namespace=NAMESPACE, topics_pattern=".*/t.*")
    )
    assert (list(listed.topics), listed.filtered) == ([ONE], False)
