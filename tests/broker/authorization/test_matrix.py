"""Every request over HTTP and every command of every kind of role, against `expected.txt`."""

import http.client
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import credentials
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.session.authorizing import NEEDS
from magnetar_broker.session.handlers import HANDLERS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.names import TopicName
from raw_client import Closed, FrameSocket, Kind, Received, send_frame
from running_broker import RunningBroker

EXPECTED = Path(__file__).with_name("expected.txt").read_text(encoding="utf-8")
LETTERS = "NUPCSAR"
ROLES = {
    "N": None, "U": "stranger", "P": "producer", "C": "consumer", "S": "subscriber", "A": "admin",
    "R": "root",
}  # fmt: skip
NAMESPACE, TOPIC = "acme/orders", "persistent://acme/orders/new"
REFUSALS = (401, 403)
SHUTDOWN = "/admin/v2/brokers/shutdown"


class Row(NamedTuple):
    """One line of the file."""

    allowed: str
    status: int
    """Of a refusal over HTTP."""
    what: str


@cache
def rows(section: str) -> dict[str, Row]:
    """The lines of a section of the file, by what is asked for."""
    text = EXPECTED.partition(f"[{section}]\n")[2].partition("\n\n")[0]
    found: dict[str, Row] = {}
    for line in text.splitlines():
        allowed, rest = line.split(maxsplit=1)
        assert len(allowed) == len(LETTERS), line
        assert all(sent in (".", letter) for sent, letter in zip(allowed, LETTERS, strict=True)), (
            line
        )
        status = 0
        if section == "requests":
            first, rest = rest.split(maxsplit=1)
            status = 0 if first == "-" else int(first)
        what = " ".join(rest.split())
        assert what not in found, line
        found[what] = Row(allowed, status, what)
    return found


def test_the_file_has_every_route_and_every_command() -> None:
    domain = "{domain:persistent|non-persistent}"
    endpoints = [endpoint for endpoint, _ in ROUTES.routes]
    routes = {f"{one.method} {one.pattern.replace(domain, '{domain}')}" for one in endpoints}
    assert set(rows("requests")) == routes
    commands = {pb.BaseCommand.Type.Name(pb.BaseCommand.Type.ValueType(kind)) for kind in NEEDS}
    assert set(HANDLERS) <= set(NEEDS)
    assert {what for what in rows("commands") if " " not in what} == commands


# Requests ---------------------------------------------------------------------------------


class Web:
    """The HTTP port of a broker."""

    def __init__(self, broker: RunningBroker) -> None:
        self._port = broker.http_port

    def ask(
        self, role: str | None, method: str, path: str, body: Any = None, original: str = ""
    ) -> tuple[int, bytes]:
        """Status and body of a request of a role, or without credentials."""
        headers = {"Content-Type": "application/json"}
        if role is not None:
            headers["Authorization"] = f"Bearer {credentials.token(role)}"
        if original:
            headers["X-Original-Principal"] = original
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def root(self, method: str, path: str, body: Any = None) -> int:
        """The status of a request of the super-user."""
        return self.ask("root", method, f"/admin/v2/{path}", body)[0]

    def set_up(self) -> None:
        """Have everything as it was: each of these may be there already."""
        for tenant, admin in (("acme", "admin"), ("elsewhere", "stranger")):
            body = {"adminRoles": [admin], "allowedClusters": ["standalone"]}
            self.root("PUT", f"tenants/{tenant}", body)
            self.root("POST", f"tenants/{tenant}", body)
        space = f"namespaces/{NAMESPACE}"
        self.root("PUT", space, {"bundles": {"numBundles": 1}})
        for role, action in (("producer", "produce"), ("consumer", "consume"),
                             ("subscriber", "consume"), ("proxy", "consume")):  # fmt: skip
            self.root("POST", f"{space}/permissions/{role}", [action])
        self.root("POST", f"{space}/permissions/subscription/sub", ["subscriber"])
        self.root("PUT", TOPIC.replace("://", "/"))
        self.root("PUT", f"{TOPIC.replace('://', '/')}/subscription/sub", "latest")


VALUES = {
    "tenant": "acme", "namespace": "orders", "topic": "new", "domain": "persistent",
    "bundle": "0x00000000_0xffffffff", "subscription": "sub", "role": "someone",
    "cluster": "nowhere", "policy": "some", "broker": "localhost:8080", "key": "k", "value": "v",
    "version": "0", "messages": "1", "seconds": "1", "timestamp": "1", "ledger": "1", "entry": "1",
    "position": "1", "name": "nothing", "snapshot": "matrix", "group": "group",
    "coordinator": "1", "most": "1", "least": "1", "timeout": "1",
}  # fmt: skip
BODIES = {
    "grantPermissionsOnTopics": [{"topic": TOPIC, "role": "someone", "actions": ["produce"]}],
    "revokePermissionsOnTopics": [{"topic": TOPIC, "role": "someone", "actions": ["produce"]}],
}


def sent(what: str) -> tuple[str, str, Any]:
    """Method, path and body of a request."""
    method, pattern = what.split()
    path = re.sub(r"\{(\w+)\}", lambda found: VALUES[found[1]], pattern)
    return method, path, BODIES.get(pattern.rpartition("/")[2])


def judged(what: str, status: int, body: bytes, expected: Row, allowed: bool) -> Iterator[str]:
    """What is wrong with an answer."""
    if allowed and status in REFUSALS:
        yield f"{what}: refused with {status}: {body[:200]!r}"
    if not allowed and status != expected.status:
        yield f"{what}: expected {expected.status}, but got {status}: {body[:200]!r}"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return credentials.settings(
        tmp_path_factory.mktemp("credentials"),
        authorizationEnabled="true",
        superUserRoles="root",
        proxyRoles="proxy",
        forceDeleteNamespaceAllowed="true",
        forceDeleteTenantAllowed="true",
    )


def test_every_request_of_every_kind_of_role(make_broker: Any, settings: dict[str, str]) -> None:
    broker = make_broker(**settings)
    web = Web(broker)
    web.set_up()
    wrong: list[str] = []
    # Refusals first, all of them: they change nothing, so there is nothing to set up again.
    for row in rows("requests").values():
        method, path, body = sent(row.what)
        for letter, role in ROLES.items():
            if letter not in row.allowed:
                status, text = web.ask(role, method, path, body)
                none = row._replace(status=401) if role is None else row
                wrong += judged(f"{letter} {row.what}", status, text, none, False)
    for row in rows("requests").values():
        method, path, body = sent(row.what)
        for letter, role in ROLES.items():
            if letter in row.allowed and path != SHUTDOWN:
                status, text = web.ask(role, method, path, body)
                wrong += judged(f"{letter} {row.what}", status, text, row, True)
                if method != "GET" and status < 300:
                    web.set_up()
    assert not wrong, "\n".join(wrong)
    assert web.ask("root", "POST", SHUTDOWN)[0] < 300
    assert broker.wait() == 0


def test_every_request_of_the_anonymous_role_and_by_proxies(
    make_broker: Any, settings: dict[str, str]
) -> None:
    broker = make_broker(**settings, anonymousUserRole="anonymous")
    web = Web(broker)
    web.set_up()
    wrong: list[str] = []
    for row in rows("requests").values():
        method, path, body = sent(row.what)
        may_all = "U" in row.allowed
        if not may_all:
            status, text = web.ask(None, method, path, body)
            wrong += judged(f"anonymous {row.what}", status, text, row, False)
        # The proxy has `consume`.
        for original, letters in (("root", "CR"), ("consumer", "C"), ("producer", "CP")):
            allowed = all(letter in row.allowed for letter in letters)
            if allowed and method != "GET":
                continue
            status, text = web.ask("proxy", method, path, body, original)
            wrong += judged(f"proxy of {original} {row.what}", status, text, row, allowed)
        if "N" not in row.allowed:
            assert web.ask("proxy", method, path, body)[0] == 401
            assert web.ask("producer", method, path, body, "root")[0] == 401
    assert not wrong, "\n".join(wrong)


def test_a_request_that_names_topics_of_others_is_refused_as_a_whole(
    make_broker: Any, settings: dict[str, str]
) -> None:
    web = Web(make_broker(**settings))
    web.set_up()
    web.root("PUT", "namespaces/elsewhere/other", {})
    other = "persistent://elsewhere/other/topic"
    for verb in ("grant", "revoke"):
        path = f"/admin/v2/namespaces/{verb}PermissionsOnTopics"
        body = [{"topic": name, "role": "x", "actions": ["produce"]} for name in (TOPIC, other)]
        assert web.ask("admin", "POST", path, body)[0] == 401
        assert web.ask("admin", "POST", path, body[:1])[0] == 204
    permissions = f"/admin/v2/namespaces/{NAMESPACE}/permissions"
    assert "x" not in json.loads(web.ask("admin", "GET", permissions)[1])
    for topic in ("__change_events", "a__transaction_pending_ack"):
        path = f"/admin/v2/persistent/{NAMESPACE}/{topic}"
        assert web.ask("admin", "PUT", path)[0] == 403
        assert web.ask("admin", "GET", f"{path}/stats")[0] == 401


def test_all_subscriptions_are_for_who_may_use_each_of_them(
    make_broker: Any, settings: dict[str, str]
) -> None:
    web = Web(make_broker(**settings))
    web.set_up()
    topic, space = TOPIC.replace("://", "/"), f"namespaces/{NAMESPACE}"
    web.root("PUT", f"{topic}/subscription/consumer-own", "latest")
    paths = (
        f"/admin/v2/{topic}/all_subscription/expireMessages/1",
        f"/admin/v2/{space}/clearBacklog",
        f"/admin/v2/{space}/0x00000000_0xffffffff/clearBacklog",
    )

    def statuses(role: str) -> list[int]:
        answers = [web.ask(role, "POST", path) for path in paths]
        refusals = [text for status, text in answers if status in REFUSALS]
        assert all(b"may not use subscription sub of" in text for text in refusals)
        return [status for status, _ in answers]

    refused, done = [401, 403, 403], [409, 204, 204]
    assert statuses("consumer") == refused
    for role in ("subscriber", "admin", "root"):
        assert statuses(role) == done
    web.root("DELETE", f"{space}/permissions/sub/subscriber")
    assert web.root("POST", f"{space}/subscriptionAuthMode", "Prefix") == 204
    assert statuses("consumer") == refused
    web.root("DELETE", f"{topic}/subscription/sub")
    assert statuses("consumer") == done


def test_refusals_over_http_do_not_tell_what_exists(
    make_broker: Any, settings: dict[str, str]
) -> None:
    web = Web(make_broker(**settings))
    web.set_up()
    for row in rows("requests").values():
        if "{tenant}" not in row.what or "U" in row.allowed:
            continue
        method, path, body = sent(row.what)
        if body is None:
            status, text = web.ask("stranger", method, path)
            renamed = path.replace("acme", "none")
            absent = web.ask("stranger", method, renamed)
            assert absent == (status, text.replace(b"acme", b"none")), row.what


def test_dead_letter_topics_are_told_only_to_who_may_consume_them(
    make_broker: Any, settings: dict[str, str]
) -> None:
    web = Web(make_broker(**settings))
    web.set_up()
    topic = TOPIC.replace("://", "/")
    web.root("POST", f"{topic}/permissions/narrow", ["consume"])
    for subscription in ("there", "absent"):
        web.root("PUT", f"{topic}/subscription/{subscription}", "latest")
    web.root("PUT", f"{topic}-there-DLQ")
    answers = []
    for subscription in ("there", "absent"):
        path = f"/admin/v2/{topic}/subscription/{subscription}/deadLetters"
        for one in (path, f"{path}/messages"):
            status, text = web.ask("narrow", "GET", one)
            answers.append((status, text.replace(b"absent", b"there")))
            assert status == 401, (one, text)
    assert answers[:2] == answers[2:]
    web.root("POST", f"{topic}-there-DLQ/permissions/narrow", ["consume"])
    path = f"/admin/v2/{topic}/subscription/there/deadLetters"
    status, text = web.ask("narrow", "GET", path)
    assert status == 200 and b"there-DLQ" in text
    assert web.ask("narrow", "GET", f"{path}/messages")[0] == 200


# Commands ---------------------------------------------------------------------------------


def commands(topic: str) -> dict[str, bytes]:
    """One command of each kind, as bytes, by the names in the file."""
    namespace = TopicName.parse(topic).namespace_name
    one: dict[str, Any] = {"request_id": 1}
    transaction: dict[str, Any] = {**one, "txnid_least_bits": 1, "txnid_most_bits": 1}
    schema = pb.Schema(name="", type=pb.Schema.String, schema_data=b"")
    made: dict[str, Any] = {
        "AUTH_RESPONSE": pb.CommandAuthResponse(),
        "PING": pb.CommandPing(),
        "PONG": pb.CommandPong(),
        "PARTITIONED_METADATA": pb.CommandPartitionedTopicMetadata(
            topic=topic, metadata_auto_creation_enabled=True, **one
        ),
        "LOOKUP": pb.CommandLookupTopic(topic=topic, **one),
        "GET_SCHEMA": pb.CommandGetSchema(topic=topic, **one),
        "GET_OR_CREATE_SCHEMA": pb.CommandGetOrCreateSchema(topic=topic, schema=schema, **one),
        "GET_TOPICS_OF_NAMESPACE": pb.CommandGetTopicsOfNamespace(namespace=namespace, **one),
        "WATCH_TOPIC_LIST": pb.CommandWatchTopicList(
            namespace=namespace, watcher_id=1, topics_pattern=".*", **one
        ),
        "WATCH_TOPIC_LIST_CLOSE": pb.CommandWatchTopicListClose(watcher_id=1, **one),
        "PRODUCER": pb.CommandProducer(topic=topic, producer_id=1, **one),
        "PRODUCER with an initial subscription": pb.CommandProducer(
            topic=topic, producer_id=1, initial_subscription_name="initial", **one
        ),
        "CLOSE_PRODUCER": pb.CommandCloseProducer(producer_id=7, **one),
        "SUBSCRIBE": pb.CommandSubscribe(
            topic=topic,
            subscription="own",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=1,
            **one,
        ),
        "SUBSCRIBE to sub": pb.CommandSubscribe(
            topic=topic,
            subscription="sub",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=1,
            **one,
        ),
        "FLOW": pb.CommandFlow(consumer_id=7, messagePermits=1),
        "ACK": pb.CommandAck(consumer_id=7, ack_type=pb.CommandAck.Individual),
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": pb.CommandRedeliverUnacknowledgedMessages(
            consumer_id=7
        ),
        "SEEK": pb.CommandSeek(consumer_id=7, message_publish_time=1, **one),
        "UNSUBSCRIBE": pb.CommandUnsubscribe(consumer_id=7, **one),
        "GET_LAST_MESSAGE_ID": pb.CommandGetLastMessageId(consumer_id=7, **one),
        "CONSUMER_STATS": pb.CommandConsumerStats(consumer_id=7, **one),
        "CLOSE_CONSUMER": pb.CommandCloseConsumer(consumer_id=7, **one),
        "TC_CLIENT_CONNECT_REQUEST": pb.CommandTcClientConnectRequest(tc_id=0, **one),
        "NEW_TXN": pb.CommandNewTxn(**one),
        "ADD_PARTITION_TO_TXN": pb.CommandAddPartitionToTxn(partitions=[topic], **transaction),
        "ADD_SUBSCRIPTION_TO_TXN": pb.CommandAddSubscriptionToTxn(
            subscription=[pb.Subscription(topic=topic, subscription="own")], **transaction
        ),
        "ADD_SUBSCRIPTION_TO_TXN of sub": pb.CommandAddSubscriptionToTxn(
            subscription=[pb.Subscription(topic=topic, subscription="sub")], **transaction
        ),
        "END_TXN": pb.CommandEndTxn(**transaction),
        "END_TXN_ON_PARTITION": pb.CommandEndTxnOnPartition(topic=topic, **transaction),
        "END_TXN_ON_SUBSCRIPTION": pb.CommandEndTxnOnSubscription(**transaction),
    }
    return {name: encode(message) for name, message in made.items()} | {"SEND": send_frame(0, b"a")}


class Peer:
    """A connection of a role."""

    def __init__(self, port: int, role: str | None, original: str = "") -> None:
        self._socket = FrameSocket(port)
        connect = pb.CommandConnect(client_version="raw", protocol_version=21)
        if role is not None:
            connect.auth_method_name = "token"
            connect.auth_data = credentials.token(role).encode()
        if original:
            connect.original_principal = original
        self._socket.send(encode(connect))
        self.connected = self._next()

    def _next(self) -> Received:
        frames: list[Received] = []
        while not frames:
            frames = [frame for frame in self._socket.read() if frame.kind != Kind.PING]
        return frames[0]

    def close(self) -> None:
        self._socket.close()

    def error_of(self, name: str, frame: bytes) -> int:
        """The code of the refusal of a command; UnknownError where it has none."""
        waits = name.split(maxsplit=1)[0] not in (
            "PONG", "SEND", "FLOW", "ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "AUTH_RESPONSE",
        )  # fmt: skip
        try:
            self._socket.send(frame if waits else frame + encode(pb.CommandPing()))
            return code_of(self._next())
        except Closed:
            return pb.UnknownError
        finally:
            self.close()


def code_of(frame: Received) -> int:
    for field in ("error", "error_code"):
        if field in frame.command.DESCRIPTOR.fields_by_name and frame.command.HasField(field):
            return int(getattr(frame.command, field))
    return pb.UnknownError


@pytest.mark.parametrize("workers", ["1", "3"])
def test_every_command_of_every_kind_of_role(
    make_broker: Any, settings: dict[str, str], workers: str
) -> None:
    broker = make_broker(**settings, magnetarWorkers=workers)
    web = Web(broker)
    web.set_up()
    callers = [(letter, role, "", letter) for letter, role in ROLES.items() if role is not None]
    callers += [
        ("proxy of root", "proxy", "root", "CR"),
        ("proxy of consumer", "proxy", "consumer", "C"),
        ("proxy of producer", "proxy", "producer", "CP"),
    ]
    wrong = []
    for row in rows("commands").values():
        if row.what == "CONNECT":
            continue
        for called, role, original, letters in callers:
            allowed = all(letter in row.allowed for letter in letters)
            peer = Peer(broker.port, role, original)
            assert peer.connected.kind == Kind.CONNECTED, called
            code = peer.error_of(row.what, commands(TOPIC)[row.what])
            if (code == pb.AuthorizationError) == allowed:
                wrong.append(f"{called} {row.what}: {pb.ServerError.Name(code)}")
    assert not wrong, "\n".join(wrong)


def test_connections_without_a_role_of_their_own_are_refused(
    make_broker: Any, settings: dict[str, str]
) -> None:
    broker = make_broker(**settings)
    for role, original, expected in (
        (None, "", pb.AuthenticationError),
        ("proxy", "", pb.AuthorizationError),
        ("proxy", "proxy", pb.AuthorizationError),
        ("producer", "consumer", pb.AuthorizationError),
        ("producer", "root", pb.AuthorizationError),
    ):
        peer = Peer(broker.port, role, original)
        peer.close()
        assert peer.connected.kind == Kind.ERROR and code_of(peer.connected) == expected


def test_commands_about_what_does_not_exist_and_of_the_broker_are_refused_alike(
    make_broker: Any, settings: dict[str, str]
) -> None:
    broker = make_broker(**settings, allowAutoNamespaceCreation="true")
    web = Web(broker)
    web.set_up()
    tenants = web.ask("root", "GET", "/admin/v2/tenants")
    for topic, role in (
        ("persistent://nobody/nothing/topic", "producer"),
        ("persistent://nobody/nothing/topic", "admin"),
        ("persistent://acme/absent/topic", "consumer"),
        ("persistent://pulsar/system/topic", "admin"),
        (f"persistent://{NAMESPACE}/__change_events", "admin"),
        (f"persistent://{NAMESPACE}/__change_events", "producer"),
        (f"non-persistent://{NAMESPACE}/__transaction_buffer_snapshot", "consumer"),
    ):
        for name, frame in commands(topic).items():
            needs_topic = "A" in rows("commands")[name].allowed and (
                "U" not in rows("commands")[name].allowed
            )
            of_namespace = name in ("GET_TOPICS_OF_NAMESPACE", "WATCH_TOPIC_LIST")
            if not needs_topic or (of_namespace and NAMESPACE in topic):
                continue
            code = Peer(broker.port, role).error_of(name, frame)
            assert code == pb.AuthorizationError, (topic, role, name)
    assert web.ask("root", "GET", "/admin/v2/tenants") == tenants
