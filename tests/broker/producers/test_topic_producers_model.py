"""Any history of producers on one topic: who asks is answered, and so is who may send."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.sessions import Client, SessionWorld, close_producer, produce
from fakes.world import ManualPromise
from magnetar_broker.producers.access import Mode
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.errors import DiskFull
from raw_client import send_frame

CLIENTS, IDS = 3, 2


class ProducingClient:
    """Acts on what it receives, and asserts that it is consistent."""

    def __init__(self, world: SessionWorld) -> None:
        self.wire: Client = world.client()
        self.opening: dict[int, int] = {}
        """Unanswered requests, with the producer they are of."""
        self.waiting: dict[int, int] = {}
        """Those that were answered to wait."""
        self.closing: set[int] = set()
        self.ready: set[int] = set()
        self.receipts = 0
        self.requests = 0

    def request(self) -> int:
        self.requests += 1
        return self.requests

    def open(self, number: int, mode: Mode, name: str) -> None:
        busy = {*self.opening.values(), *self.waiting.values()} | self.ready
        if number in busy:
            return
        request = self.request()
        self.opening[request] = number
        self.wire.send(
            produce(request, number, producer_name=name, producer_access_mode=mode.value)
        )

    def close(self, number: int) -> None:
        self.ready.discard(number)
        self.waiting = {r: n for r, n in self.waiting.items() if n != number}
        self.opening = {r: n for r, n in self.opening.items() if n != number}
        request = self.request()
        self.closing.add(request)
        self.wire.send(close_producer(request, number))

    def send(self, number: int) -> None:
        if number in self.ready:
            self.wire.send_bytes(send_frame(0, b"a", number))

    def read(self) -> None:
        for answer in self.wire.received_so_far():
            if isinstance(answer, pb.CommandPing):
                self.wire.send(pb.CommandPong())
            elif isinstance(answer, pb.CommandSendReceipt):
                self.receipts += 1
            elif isinstance(answer, pb.CommandCloseProducer):
                self.ready.discard(answer.producer_id)
            elif isinstance(answer, pb.CommandSuccess):
                self.closing.remove(answer.request_id)
            else:
                self.answered(answer)

    def answered(self, answer: Any) -> None:
        request = answer.request_id
        number = self.opening.pop(request, None)
        waited = self.waiting.pop(request, None)
        if number is None:
            number = waited
        if number is None:
            return  # it was closed meanwhile
        if isinstance(answer, pb.CommandProducerSuccess):
            if answer.producer_ready:
                self.ready.add(number)
            else:
                assert waited is None, "answered twice to wait"
                self.waiting[request] = number
        else:
            assert isinstance(answer, pb.CommandError)


class History:
    """A broker, its clients, and what is done to them."""

    def __init__(self, **fields: Any) -> None:
        self.world = SessionWorld(**fields)
        self.clients = [ProducingClient(self.world) for _ in range(CLIENTS)]
        self.gate: ManualPromise | None = None
        self.put = self.world.metadata.put

    def do(self, what: str, who: int, number: int, mode: Mode) -> None:
        client = self.clients[who]
        if what == "open":
            client.open(number, mode, f"{who}-{number}")
        elif what == "same name":
            client.open(number, mode, "name")
        elif what == "close":
            client.close(number)
        elif what == "send":
            client.send(number)
        elif what == "step":
            for _ in range(1 + who):
                self.world.clock.step()
        elif what == "gate":
            self.hold_metadata() if self.gate is None else self.let_metadata_go()
        elif what == "send away":
            for topic in self.world.broker.topics:
                topic.producers.apply_rules(PublishRules(must_encrypt=True))
                topic.producers.apply_rules(PublishRules(must_encrypt=False))
        elif what == "fail":
            self.world.store.break_writers(DiskFull("no room"))
        else:
            client.wire.session.lost()
        self.read()

    def read(self) -> None:
        for at, client in enumerate(self.clients):
            client.read()
            if client.wire.closed or client.wire.session._closed:
                self.clients[at] = ProducingClient(self.world)

    def hold_metadata(self) -> None:
        gate = self.gate = self.world.clock.promise()

        async def late(*asked: Any) -> Any:
            await gate
            return await self.put(*asked)

        self.world.metadata.put = late  # type: ignore[assignment]

    def let_metadata_go(self) -> None:
        self.world.metadata.put = self.put  # type: ignore[method-assign]
        if self.gate is not None:
            gate, self.gate = self.gate, None
            gate.set_result(None)

    def settle(self) -> None:
        self.let_metadata_go()
        for _ in range(10):
            self.world.clock.pump()
            self.read()

    def check(self) -> None:
        """No request waits for an answer; a producer that may send is answered or was fenced."""
        self.settle()
        producers = self.world.topic().producers
        waiting = sum(len(client.waiting) for client in self.clients)
        assert waiting == len(producers.waiting), "waits for a turn that will not come"
        assert not producers.waiting or len(producers), "waits although the topic is free"
        for client in list(self.clients):
            assert not client.opening and not client.closing, "was not answered"
            for number in sorted(client.ready):
                receipts = client.receipts
                client.send(number)
                self.settle()
                if client not in self.clients:
                    break  # it was fenced
                gone = number not in client.ready  # with a topic that failed
                assert gone or client.receipts == receipts + 1, "may send and is not answered"
        by_name = list(producers)
        assert len(by_name) < 2 or all(p.claim.mode is Mode.SHARED for p in by_name)


STEPS = st.tuples(
    st.sampled_from(
        ["open"] * 4
        + ["step"] * 4
        + ["close", "send", "gate"] * 2
        + ["same name", "fail", "lost", "send away"]
    ),
    st.integers(0, CLIENTS - 1),
    st.integers(0, IDS - 1),
    st.sampled_from(Mode),
)


FENCED_AS_ITS_WAIT_BEGINS: Any = [
    [("open", 2, 0, Mode.SHARED), ("open", 0, 0, Mode.WAITING)],
    [
        ("close", 2, 0, Mode.SHARED),
        ("gate", 0, 0, Mode.SHARED),
        ("step", 0, 0, Mode.SHARED),
        ("open", 1, 0, Mode.WAITING),
        ("open", 0, 1, Mode.FENCING),
        ("step", 2, 0, Mode.SHARED),
    ],
]


@example(False, FENCED_AS_ITS_WAIT_BEGINS)
@settings(max_examples=examples(150))
@given(st.booleans(), st.lists(st.lists(STEPS, max_size=25), min_size=1, max_size=3))
def test_every_request_is_answered_whatever_happens(
    deduplicating: bool, phases: list[list[tuple[str, int, int, Mode]]]
) -> None:
    history = History(broker_deduplication_enabled=deduplicating)
    for steps in phases:
        for step in steps:
            history.do(*step)
        history.check()
