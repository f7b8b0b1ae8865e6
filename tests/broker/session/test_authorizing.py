"""Commands are authorized before anything else happens, and again when permissions change."""

from typing import Any

import pytest

from fakes.sessions import TOPIC, Client, SessionWorld, by_request, produce, subscribe
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.names.permissions import TopicGrant
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.policies.table import SUBSCRIPTION_AUTH_MODE, SubscriptionAuthMode
from magnetar_broker.session.authorizing import NEEDS, OPENING, REFUSALS, authorized, nothing
from magnetar_broker.session.handlers import HANDLERS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import NamespaceName, TopicName

Command = pb.BaseCommand
NAMESPACE = "public/default"
ABSENT = "persistent://nobody/nothing/topic"
IN_LOOP = {Command.SEND, Command.ACK, Command.FLOW}
"""The receive loop handles these."""


class World(SessionWorld):
    def __init__(self, **settings: Any) -> None:
        super().__init__(authorization_enabled=True, super_user_roles=("root",), **settings)

    def role(self, own: str | None, original: str | None = None) -> Client:
        client = self.client()
        client.session.roles = None if own is None else Roles(own, original)
        return client

    def grant(self, role: str, *actions: str) -> None:
        self.do(self.directory.permissions.grant(NAMESPACE, role, list(actions)))

    def revoke(self, role: str) -> None:
        self.do(self.directory.permissions.revoke(NAMESPACE, role))


def requests(topic: str) -> list[Any]:
    """Every command that needs a grant."""
    namespace = TopicName.parse(topic).namespace_name
    return [
        pb.CommandPartitionedTopicMetadata(
            request_id=1, topic=topic, metadata_auto_creation_enabled=True
        ),
        pb.CommandLookupTopic(request_id=2, topic=topic),
        pb.CommandGetSchema(request_id=3, topic=topic),
        pb.CommandGetOrCreateSchema(
            request_id=4,
            topic=topic,
            schema=pb.Schema(name="", type=pb.Schema.String, schema_data=b""),
        ),
        pb.CommandGetTopicsOfNamespace(request_id=5, namespace=namespace),
        pb.CommandWatchTopicList(
            request_id=6, watcher_id=1, namespace=namespace, topics_pattern=".*"
        ),
        produce(7, topic=topic),
        subscribe(8, topic=topic),
    ]


def error_of(answer: Any) -> tuple[int, str]:
    """The code and the text of a refusal."""
    for code, text in (("error", "message"), ("error_code", "error_message")):
        if hasattr(answer, code):
            return getattr(answer, code), getattr(answer, text)
    raise AssertionError(answer)


def test_the_table_has_every_command() -> None:
    assert set(NEEDS) >= set(HANDLERS) | IN_LOOP
    assert set(OPENING) | set(REFUSALS) <= {kind for kind in NEEDS if NEEDS[kind] is not nothing}


def test_a_command_that_is_not_in_the_table_is_refused() -> None:
    def handle(session: Any, command: Any) -> None:
        raise AssertionError

    assert authorized({Command.ERROR: handle}) == {}


@pytest.mark.parametrize("own,original", [
    (None, None), ("other", None), ("root", "other"), ("other", "root"), ("", None),
])  # fmt: skip
def test_without_a_grant_every_command_is_refused_and_nothing_happens(
    own: str | None, original: str | None
) -> None:
    world = World()
    world.grant("someone", "produce", "consume")
    told = []
    for topic in (TOPIC, ABSENT):
        client = world.role(own, original)
        client.send(*requests(topic))
        answers = by_request(client.received())
        assert len(answers) == 8 and not client.closed
        for answer in answers.values():
            code, text = error_of(answer)
            assert code == pb.AuthorizationError
            assert own is None or "other" in text or not own
        told.append([
            error_of(answer)[1].replace("nobody/nothing", NAMESPACE) for answer in answers.values()
        ])  # fmt: skip
    assert told[0] == told[1]  # nothing is told about what exists
    assert list(world.broker.topics) == []
    assert not world.do(world.directory.namespaces.has("nobody/nothing"))
    assert "nobody" not in world.do(world.directory.tenants.names())
    assert world.do(world.directory.catalogue.partitions(TopicName.parse(TOPIC))) == 0
    assert world.do(world.directory.schema(TopicName.parse(TOPIC), None)) is None


@pytest.mark.parametrize("own,original", [("root", None), ("root", "root"), ("both", None)])
def test_with_a_grant_every_command_is_answered(own: str, original: str | None) -> None:
    world = World()
    world.grant("both", "produce", "consume")
    client = world.role(own, original)
    client.ask(produce(100, producer_id=100))
    client.send(*requests(TOPIC))
    answers = client.received()
    assert len(answers) == 8
    assert not [answer for answer in answers if isinstance(answer, pb.CommandError)]


def test_an_initial_subscription_needs_consume() -> None:
    world = World()
    world.grant("p", "produce")
    client = world.role("p")
    code, _ = error_of(client.ask(produce(1, initial_subscription_name="s")))
    assert code == pb.AuthorizationError and list(world.broker.topics) == []
    assert isinstance(client.ask(produce(2)), pb.CommandProducerSuccess)
    world.grant("p", "produce", "consume")
    answer = client.ask(produce(3, producer_id=2, initial_subscription_name="s"))
    assert isinstance(answer, pb.CommandProducerSuccess)


@pytest.mark.parametrize("end", [pb.CommandEndTxnOnPartition, pb.CommandEndTxnOnSubscription])
def test_the_end_of_a_transaction_between_brokers_needs_a_super_user(end: Any) -> None:
    world = World()
    world.grant("both", "produce", "consume")
    for role, expected in (("both", pb.AuthorizationError), ("root", pb.InvalidTopicName)):
        assert error_of(world.role(role).ask(end(request_id=1)))[0] == expected


def opened(client: Client) -> dict[int, Any]:
    """A producer, one that waits, a consumer and a watcher are opened."""
    client.send(
        produce(1, 1, producer_access_mode=pb.Exclusive),
        produce(2, 2, producer_access_mode=pb.WaitForExclusive),
        subscribe(3, 1),
        pb.CommandWatchTopicList(
            request_id=4, watcher_id=1, namespace=NAMESPACE, topics_pattern=".*"
        ),
    )
    answers = by_request(client.received())
    assert not [one for one in answers.values() if isinstance(one, pb.CommandError)]
    return answers


def closed(client: Client) -> list[str]:
    """The kinds of what was answered."""
    return sorted(type(answer).__name__ for answer in client.received())


def test_a_revocation_closes_what_is_open() -> None:
    world = World()
    world.grant("both", "produce", "consume")
    client, other = world.role("both"), world.role("root")
    opened(client)
    other.ask(subscribe(1, 1, subscription="other"))
    assert len(world.broker.access.clients) == 2
    world.revoke("both")
    topic = world.topic()
    assert list(topic.producers) == [] and topic.producers.waiting == []
    answers = client.received()
    assert {type(answer) for answer in answers} == {
        pb.CommandCloseProducer, pb.CommandCloseConsumer, pb.CommandError,
    }  # fmt: skip
    (refused,) = [answer for answer in answers if isinstance(answer, pb.CommandError)]
    assert (refused.request_id, refused.error) == (2, pb.AuthorizationError)
    assert client.session.watchers == {} and len(other.session.consumers) == 1
    world.topic(f"{TOPIC}-2")
    assert client.received() == []
    assert error_of(client.ask(produce(5)))[0] == pb.AuthorizationError
    client.session.lost()
    assert len(world.broker.access.clients) == 1


def test_what_is_still_allowed_stays_open() -> None:
    world = World()
    world.grant("both", "produce", "consume")
    client = world.role("both")
    opened(client)
    world.grant("both", "consume")
    assert closed(client) == ["CommandCloseProducer", "CommandError"]
    assert len(client.session.consumers) == 1 and len(client.session.watchers) == 1
    world.grant("both", "produce")
    assert closed(client) == ["CommandCloseConsumer"]
    assert len(client.session.watchers) == 1  # any grant of the namespace is enough


def test_a_revocation_of_a_topic_closes_what_is_open_there() -> None:
    world = World()
    permissions, name = world.directory.permissions, TopicName.parse(TOPIC)
    client = world.role("both")
    world.do(permissions.grant_on_topics([TopicGrant(name, "both", ["produce", "consume"])]))
    client.ask(produce(1))
    client.ask(subscribe(2))
    world.do(permissions.revoke_on_topics([TopicGrant(name, "both", ["produce"])]))
    assert closed(client) == ["CommandCloseProducer"]
    world.do(permissions.revoke_on_topics([TopicGrant(name, "both", ["consume"])]))
    assert closed(client) == ["CommandCloseConsumer"]


def test_changed_admins_of_a_tenant_lose_what_they_have_open() -> None:
    world = World()
    tenant = Tenant(("boss",), ("standalone",))
    world.do(world.directory.tenants.change("public", tenant))
    client = world.role("boss")
    opened(client)
    world.do(world.directory.tenants.change("public", Tenant(("boss", "two"), ("standalone",))))
    assert client.received() == []
    world.do(world.directory.tenants.change("public", Tenant(("two",), ("standalone",))))
    assert len(closed(client)) == 3 and client.session.watchers == {}


def test_a_subscription_that_gets_roles_is_closed_for_others() -> None:
    world = World()
    world.grant("a", "consume")
    client = world.role("a")
    client.ask(subscribe(1, subscription="sub"))
    world.do(world.directory.permissions.grant_subscription(NAMESPACE, "sub", ["a"]))
    assert client.received() == []
    world.do(world.directory.permissions.grant_subscription(NAMESPACE, "sub", ["b"]))
    assert closed(client) == ["CommandCloseConsumer"]


def test_the_prefix_mode_closes_subscriptions_with_other_names() -> None:
    world = World()
    world.grant("a", "consume")
    client = world.role("a")
    client.ask(subscribe(1, 1, subscription="a-1"))
    client.ask(subscribe(2, 2, subscription="b-1"))
    mode = {SUBSCRIPTION_AUTH_MODE: SubscriptionAuthMode.PREFIX}
    world.do(world.directory.enforcement.set(NAMESPACE, mode))
    assert closed(client) == ["CommandCloseConsumer"]
    assert list(client.session.consumers) == [1]
    assert error_of(client.ask(subscribe(3, 3, subscription="b-2")))[0] == pb.AuthorizationError
    world.do(world.directory.enforcement.set(NAMESPACE, {SUBSCRIPTION_AUTH_MODE: None}))
    assert isinstance(client.ask(subscribe(4, 3, subscription="b-2")), pb.CommandSuccess)


def test_other_namespaces_keep_what_is_open() -> None:
    world = World()
    world.grant("a", "consume")
    other = "persistent://public/other/topic"
    world.do(world.directory.namespaces.ensure(NamespaceName.parse("public/other")))
    world.do(world.directory.permissions.grant("public/other", "a", ["consume"]))
    client = world.role("a")
    client.ask(subscribe(1, topic=other))
    world.revoke("a")
    assert client.received() == [] and len(client.session.consumers) == 1


@pytest.mark.parametrize("request_", [produce(1), subscribe(1)])
def test_what_is_being_opened_is_refused_after_a_revocation(request_: Any) -> None:
    world = World()
    world.grant("both", "produce", "consume")
    client = world.role("both")
    world.store.is_failing = True  # a topic has to wait until it can be written
    gate = world.store.create_gate = world.clock.promise()
    client.send(request_)
    assert client.received() == []
    world.revoke("both")
    world.store.is_failing = False
    gate.set_result(None)
    (answer,) = client.received()
    assert error_of(answer)[0] == pb.AuthorizationError
    topic = world.topic()
    assert list(topic.producers) == []
    assert not any(one.consumers for one in topic.subscriptions.values())


def test_a_list_that_is_being_fetched_is_not_sent_after_a_revocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.grant("both", "produce", "consume")
    client = world.role("both")
    names, gate = world.broker.names, world.clock.promise()
    watch = names.watch

    async def slow(namespace: str, pattern: Any) -> Any:
        await gate
        return await watch(namespace, pattern)

    monkeypatch.setattr(names, "watch", slow)
    client.send(
        pb.CommandWatchTopicList(
            request_id=1, watcher_id=1, namespace=NAMESPACE, topics_pattern=".*"
        )
    )
    assert client.received() == []
    world.revoke("both")
    gate.set_result(None)
    (answer,) = client.received()
    assert error_of(answer)[0] == pb.AuthorizationError
    assert client.session.watchers == {}
