"""As `session`, where clients are authenticated and authorized: nothing takes effect that the roles
of who sends it may not do, and nobody is sent messages that they may not read.

One client has the credentials of an ordinary role when it connects, the other none; both may
show any on the way.
"""

from collections.abc import Iterator
from typing import Any, Final

import jwt

from credentials import SECRET
from fakes.sessions import Client, SessionWorld, produce, subscribe
from fuzz.choices import Choices
from fuzz.defects import DEFECTS
from fuzz.targets import session
from fuzz.targets.session import MOST_STEPS, SETTINGS, TEXTS, Play, finish
from magnetar_broker.authentication.authenticator import AuthenticationRules, Authenticator
from magnetar_broker.authentication.token_keys import secret_key
from magnetar_broker.authentication.tokens import TokenRules, Tokens
from magnetar_broker.names.permissions import TopicGrant
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import PROTOCOL_VERSION, encode
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.names import TopicName
from magnetar_proto.sends import encode_send

LONGEST: Final = session.LONGEST
GRANTED: Final = TEXTS[0]
"""The only topic that the ordinary role may use."""
PRIVATE: Final = "sub-of-others"
"""A subscription of it that is for another role."""
HIDDEN: Final = "persistent://public/default/hidden"
UNREADABLE: Final = b"<nobody may read this>"
NAMES: Final = (*TEXTS, PRIVATE, HIDDEN, "token", "bob", "proxy", "root")
ROLES: Final = {"bob", "proxy"}
"""Those with grants: a client of theirs has these alone, or both."""
EXPIRY_SECONDS: Final = 60


def token(role: str, key: bytes = SECRET, **claims: Any) -> bytes:
    """The same one for the same arguments."""
    return jwt.encode({"sub": role, **claims}, key, "HS256").encode()


TOKENS: Final = (
    token("bob"), token("nobody"), token("proxy"), token("root", SECRET[::-1]),
    token("root", exp=1), token("root")[:-1],
    jwt.encode({"sub": "root"}, "", "none").encode(), b"", b"x", token(""),
)  # fmt: skip
ORIGINALS: Final = ("", "bob", "root", "nobody", "proxy")


class Watched(Client):
    """A client that has not connected yet."""

    def __init__(self, world: SessionWorld, address: str) -> None:
        self.address = address
        self.reading = True
        self.closed = False
        self.session = world.session(self)
        self._world = world
        self._decoder = FrameDecoder(1 << 24)

    def received_so_far(self) -> list[Any]:
        take = self.session.take_output
        output = take()
        assert self.may_read_all or not any(UNREADABLE in bytes(piece) for piece in output)
        self.session.take_output = lambda: output
        try:
            return super().received_so_far()
        finally:
            self.session.take_output = take

    @property
    def may_read_all(self) -> bool:
        """Whether it is the super-user's."""
        return self.session.roles is not None and self.session.roles.own == "root"


class World(SessionWorld):
    """A broker with a topic of which nobody but the super-user knows."""

    def __init__(self) -> None:
        super().__init__(authorization_enabled=True, super_user_roles=("root",), **SETTINGS)
        provider = Tokens(secret_key(SECRET), TokenRules(), lambda: self.clock.now_ms() / 1000)
        rules = AuthenticationRules(proxies=frozenset(("proxy",)), checks_originals=True)
        self.broker.authenticator = Authenticator([provider], rules)
        permissions = self.directory.permissions
        granted = TopicName.parse(GRANTED)
        for role in ROLES:
            grant = TopicGrant(granted, role, ["produce", "consume"])
            self.do(permissions.grant_on_topics([grant]))
        self.do(permissions.grant_subscription("public/default", PRIVATE, ["others"]))
        root = self.with_token(token("root"))
        for number, (topic, name) in enumerate(((HIDDEN, "sub"), (GRANTED, PRIVATE))):
            client_ids = {"producer_id": number}
            root.send(subscribe(number, number, topic=topic, subscription=name))
            root.send(produce(number + 2, topic=topic, **client_ids))
            root.received()
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        root.send_bytes(encode_send(0, 0, 1, metadata.SerializeToString(), UNREADABLE))
        root.received()
        root.session.lost()
        self.before = self.protected()

    def with_token(self, data: bytes, **fields: Any) -> Watched:
        """A client that has sent these credentials."""
        self._clients += 1
        client = Watched(self, f"10.0.0.{self._clients}:4711")
        client.send(connect(data, **fields))
        client.received()
        return client

    def protected(self) -> list[object]:
        """What no client may change."""
        hidden, granted = self._loaded(HIDDEN), self._loaded(GRANTED)
        names = self.do(self.directory.catalogue.topics("public/default"))
        return [
            sorted(str(name) for name in names if str(name.base) != GRANTED),
            sorted(hidden.subscriptions),
            hidden.log.end,
            hidden.subscriptions["sub"].next_unacked(),
            granted.subscriptions[PRIVATE].next_unacked(),
            self.do(self.directory.schema(TopicName.parse(HIDDEN), None)),
            self.do(self.directory.tenants.names()),
        ]

    def _loaded(self, name: str) -> Topic:
        topic = self.do(self.broker.topic(TopicName.parse(name), create=True))
        assert isinstance(topic, Topic)
        return topic


def connect(data: bytes, **fields: Any) -> pb.CommandConnect:
    return pb.CommandConnect(
        client_version="fuzz", protocol_version=PROTOCOL_VERSION, auth_method_name="token",
        auth_data=data, feature_flags=pb.FeatureFlags(supports_auth_refresh=True), **fields,
    )  # fmt: skip


class AuthorizedPlay(Play):
    """The clients that misbehave, of the granted role and of none."""

    topics = (
        GRANTED,
        GRANTED,
        HIDDEN,
        "non-persistent://public/default/n",
        f"{GRANTED}-partition-0",
    )
    subscriptions = ("sub", PRIVATE)
    world: World

    def begin(self) -> SessionWorld:
        return World()

    def connect(self, number: int) -> Client:
        if number:
            self.world._clients += 1
            return Watched(self.world, f"10.0.0.{self.world._clients}:4711")
        expires = self.world.clock.now_ms() // 1000 + EXPIRY_SECONDS
        return self.world.with_token(token("bob", exp=expires))

    def newcomer(self) -> Client:
        return self.world.with_token(token("root"))

    # Steps --------------------------------------------------------------------------

    def credentials(self) -> None:
        """CONNECT, in whatever state, with any of the tokens."""
        choices = self.choices
        command = connect(choices.pick(TOKENS), original_principal=choices.pick(ORIGINALS))
        if choices.flag():
            command.original_auth_data = choices.pick(TOKENS).decode("latin-1")
        if choices.flag():
            command.auth_method_name = choices.text()
        self.feed(encode(command))

    def response(self) -> None:
        """AUTH_RESPONSE, whether or not it was asked for."""
        data = pb.AuthData(auth_method_name="token", auth_data=self.choices.pick(TOKENS))
        self.feed(encode(pb.CommandAuthResponse(response=data)))

    # What must hold -----------------------------------------------------------------

    def check_opened(self) -> None:
        """Clients have open what their roles may have, and nothing before they have any."""
        for client in self.clients:
            one = client.session
            roles = set() if one.roles is None else set(one.roles.all)
            producers = list(one.publishing.producers.values())
            consumers = [consumer.subscription for consumer in one.consumers.values()]
            assert not one.watchers
            if not roles or not roles <= ROLES:
                assert not producers and not consumers, f"{roles} may open nothing"
            names = [one.topic for one in producers] + [one.topic_name for one in consumers]
            assert all(str(name.base) == GRANTED for name in names), f"{roles} opened {names}"
            assert all(subscription.name != PRIVATE for subscription in consumers)


STEPS: Final = (
    Play.command, Play.send, Play.flow, Play.ack, Play.producer, Play.consumer, Play.read,
    Play.send_any, Play.frame, Play.garbage, Play.hang_up, Play.stall, Play.wait, Play.tick,
    Play.next_client, Play.seek, Play.command, Play.read,
    AuthorizedPlay.credentials, AuthorizedPlay.response,
)  # fmt: skip


def run(data: bytes) -> None:
    DEFECTS.forget()
    choices = Choices(data, NAMES)
    play = AuthorizedPlay(choices)
    steps = 0
    while choices.left and steps < MOST_STEPS:
        choices.pick(STEPS)(play)
        DEFECTS.raise_found()
        play.check_opened()
        steps += 1
    play.read()
    play.check_opened()
    assert play.world.protected() == play.world.before
    finish(play)
    DEFECTS.raise_found()


def seeds() -> Iterator[bytes]:
    def step(of: Any, *more: int) -> bytes:
        return bytes([STEPS.index(of), *more])

    read, other = step(Play.read), step(Play.next_client)
    for topic in range(len(AuthorizedPlay.topics)):
        for name in range(len(AuthorizedPlay.subscriptions)):
            use = (
                step(Play.producer, 1, 0, topic) + step(Play.consumer, topic, name, 2, 0, 1, 0)
                + read + step(Play.flow, 5, 0) + step(Play.send, 0, 0, 0, 0, 0, 0, 1, 3) + b"abc"
                + read + step(Play.ack, 0, 0, 0, 0, 0) + step(Play.seek, 0, 1, 2) + read
            )  # fmt: skip
            yield use
            yield other + use
            for credentials in range(len(TOKENS)):
                for original in range(2):
                    shown = step(AuthorizedPlay.credentials, credentials, original, 0, 0)
                    yield other + shown + read + use
    for kind in range(len(session.SENT)):
        for text in range(len(NAMES)):
            yield step(Play.command, kind) + bytes([0, text] * 12) + read
    for credentials in range(len(TOKENS)):
        expire = step(Play.wait, 2) * 3
        yield expire + step(AuthorizedPlay.response, credentials) + read + expire + read
