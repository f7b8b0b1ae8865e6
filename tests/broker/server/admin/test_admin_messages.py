"""Skipping, expiring, resetting and deleting over HTTP."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from admin_http import Admin
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from magnetar_proto.names import TopicName
from raw_client import RawClient, metadata, send_frame_of
from running_broker import RunningBroker

NOW_MS = 1_700_000_000_000
"""The publish time of the first message; each further one is a second later."""
SHARED = pb.CommandSubscribe.Shared

Ask = Callable[..., int]


@pytest.fixture
def ask(broker: RunningBroker) -> Ask:
    """Return a function that sends a request and returns the status; refusals need a reason."""

    def asking(method: str, path: str, body: object = None) -> int:
        answer = Admin(broker).ask(method, path, body)
        if answer.status >= 400:
            assert answer.reason
        return answer.status

    return asking


class Stage:
    """A topic with messages, and a subscription that has acknowledged none of them."""

    def __init__(self, raw: RawClient, topic: str, messages: int = 5, batch: int = 1) -> None:
        self.raw = raw
        self.topic = topic
        self.path = topic.replace("persistent://", "persistent/")
        self.ids: list[pb.MessageIdData] = []
        self.consumers = 100
        # As every client does: the first request for a namespace without a lookup may be refused.
        raw.request(pb.CommandLookupTopic(topic=topic, request_id=0))
        self.subscribe("sub")
        raw.request(pb.CommandCloseConsumer(consumer_id=1))
        raw.produce(topic)
        for number in range(messages):
            self.publish(number, batch)

    def publish(self, number: int, batch: int = 1) -> None:
        head = metadata(number)
        head.publish_time = NOW_MS + 1000 * number
        if batch > 1:
            head.num_messages_in_batch = batch
        entry = encode_entry(head, b"m%d" % number)
        self.raw.send_bytes(send_frame_of(entry, number, num_messages=batch))
        self.ids.append(self.raw.expect(pb.BaseCommand.SEND_RECEIPT).message_id)

    def subscribe(self, name: str, consumer_id: int = 1) -> None:
        self.raw.subscribe(self.topic, name, SHARED, consumer_id)

    def at(self, number: int, **more: object) -> dict[str, object]:
        """Return the body that names a message."""
        message = self.ids[number]
        return {"ledgerId": message.ledgerId, "entryId": message.entryId, **more}

    def left(self, count: int, name: str = "sub") -> list[tuple[int, list[int]]]:
        """Return the first entries that the subscription still receives, and their ack sets."""
        self.consumers += 1
        consumer = self.consumers
        self.subscribe(name, consumer)
        self.raw.flow(1000, consumer)
        entries = {message.entryId: number for number, message in enumerate(self.ids)}
        got = []
        for _ in range(count):
            message = self.raw.await_frame(
                lambda frame: (
                    frame.kind == pb.BaseCommand.MESSAGE and frame.command.consumer_id == consumer
                )
            ).command
            got.append((entries[message.message_id.entryId], list(message.ack_set)))
        self.raw.request(pb.CommandCloseConsumer(consumer_id=consumer))
        return got

    def first(self, name: str = "sub") -> int:
        """Return the first message the subscription still receives; a new one if none is left."""
        self.publish(len(self.ids))
        return self.left(1, name)[0][0]


@pytest.fixture
def stage(raw: RawClient, topic: str) -> Stage:
    return Stage(raw, topic)


def test_messages_are_skipped(stage: Stage, ask: Ask) -> None:
    path = f"{stage.path}/subscription/sub"
    assert ask("POST", f"{path}/skip/2") == 204 and stage.first() == 2
    assert ask("POST", f"{path}/skip/0") == 204 and stage.first() == 2
    assert ask("POST", f"{path}/skip/100") == 204 and stage.first() == len(stage.ids) - 1


def test_messages_of_a_batch_are_skipped_one_by_one(raw: RawClient, topic: str, ask: Ask) -> None:
    stage = Stage(raw, topic, messages=2, batch=3)
    assert ask("POST", f"{stage.path}/subscription/sub/skip/4") == 204
    assert stage.left(1) == [(1, [0b110])]


@pytest.mark.parametrize("number", ["many", "1.5", "40000000000"])
def test_what_is_no_number_is_not_there(stage: Stage, ask: Ask, number: str) -> None:
    for what in ("subscription/sub/skip", "subscription/sub/expireMessages",
                 "all_subscription/expireMessages"):  # fmt: skip
        assert ask("POST", f"{stage.path}/{what}/{number}") == 404


def test_numbers_below_zero_are_refused(stage: Stage, ask: Ask) -> None:
    assert ask("POST", f"{stage.path}/subscription/sub/skip/-1") == 412
    assert ask("POST", f"{stage.path}/subscription/sub/expireMessages/-1") == 412
    assert stage.first() == 0


def test_everything_is_skipped(stage: Stage, ask: Ask) -> None:
    assert ask("POST", f"{stage.path}/subscription/sub/skip_all") == 204
    assert stage.first() == 5


def test_messages_expire(stage: Stage, ask: Ask) -> None:
    assert ask("POST", f"{stage.path}/subscription/sub/expireMessages/2000000000") == 204
    assert stage.first() == 0
    assert ask("POST", f"{stage.path}/subscription/sub/expireMessages/1") == 204
    assert ask("POST", f"{stage.path}/subscription/sub/expireMessages/1") == 409
    assert stage.first() == 6


def test_messages_expire_for_all_subscriptions(stage: Stage, ask: Ask) -> None:
    stage.subscribe("other")
    stage.raw.request(pb.CommandCloseConsumer(consumer_id=1))
    assert ask("POST", f"{stage.path}/all_subscription/expireMessages/1") == 204
    assert stage.first() == 5
    assert stage.first("other") == 5
    assert ask("POST", f"{stage.path}/subscription/sub/skip_all") == 204
    assert ask("POST", f"{stage.path}/subscription/other/skip_all") == 204
    assert ask("POST", f"{stage.path}/all_subscription/expireMessages/1") == 409


def test_messages_expire_up_to_one(stage: Stage, ask: Ask) -> None:
    path = f"{stage.path}/subscription/sub/expireMessages"
    assert ask("POST", path, stage.at(1)) == 204 and stage.first() == 2
    assert ask("POST", path, stage.at(3, excluded=True)) == 204 and stage.first() == 3
    assert ask("POST", path, stage.at(0)) == 204 and stage.first() == 3
    assert ask("POST", path, "earliest") == 204 and stage.first() == 3
    assert ask("POST", path, "latest") == 409
    assert ask("POST", path, {"ledgerId": 1 << 60, "entryId": 0}) == 409
    assert ask("POST", path, {"ledgerId": 0, "entryId": 0}) == 204 and stage.first() == 3


def test_a_batch_expires_in_part(raw: RawClient, topic: str, ask: Ask) -> None:
    stage = Stage(raw, topic, messages=2, batch=3)
    path = f"{stage.path}/subscription/sub/expireMessages"
    assert ask("POST", path, stage.at(0, batchIndex=1)) == 204
    assert stage.left(1) == [(0, [0b100])]
    assert ask("POST", path, stage.at(1, batchIndex=0, excluded=True)) == 204
    assert stage.left(1) == [(1, [])]


@pytest.mark.parametrize("body", [None, 5, [], {}, {"ledgerId": 1}, "soon", {"ledgerId": "a",
                                  "entryId": 1}])  # fmt: skip
def test_bodies_that_name_no_message(stage: Stage, ask: Ask, body: object) -> None:
    for what in ("expireMessages", "resetcursor"):
        assert ask("POST", f"{stage.path}/subscription/sub/{what}", body) == 400


def test_a_cursor_is_reset_to_a_message(stage: Stage, ask: Ask) -> None:
    path = f"{stage.path}/subscription/sub/resetcursor"
    assert ask("POST", path, stage.at(3)) == 204 and stage.first() == 3
    assert ask("POST", path, stage.at(1, excluded=True)) == 204 and stage.first() == 2
    assert ask("POST", path, "earliest") == 204 and stage.first() == 0
    assert ask("POST", path, "latest") == 204 and stage.first() == len(stage.ids) - 1


def test_a_cursor_is_reset_into_a_batch(raw: RawClient, topic: str, ask: Ask) -> None:
    stage = Stage(raw, topic, messages=2, batch=3)
    path = f"{stage.path}/subscription/sub/resetcursor"
    assert ask("POST", path, stage.at(0, batchIndex=1)) == 204
    assert stage.left(2) == [(0, [0b110]), (1, [])]
    assert ask("POST", path, stage.at(0, batchIndex=1, excluded=True)) == 204
    assert stage.left(2) == [(0, [0b100]), (1, [])]
    assert ask("POST", path, stage.at(0, batchIndex=2, excluded=True)) == 204
    assert stage.left(1) == [(1, [])]
    assert ask("POST", path, stage.at(0, batchIndex=0)) == 204
    assert stage.left(2) == [(0, []), (1, [])]


def test_a_cursor_is_reset_to_a_time(stage: Stage, ask: Ask) -> None:
    path = f"{stage.path}/subscription/sub/resetcursor"
    assert ask("POST", f"{path}/{NOW_MS + 2000}") == 204 and stage.first() == 2
    assert ask("POST", f"{path}/{NOW_MS + 2001}") == 204 and stage.first() == 3
    assert ask("POST", f"{path}/0") == 204 and stage.first() == 0
    assert ask("POST", f"{path}/soon") == 404


def test_consumers_are_sent_to_the_new_place(stage: Stage, ask: Ask) -> None:
    stage.subscribe("sub", consumer_id=7)
    assert ask("POST", f"{stage.path}/subscription/sub/resetcursor", stage.at(3)) == 204
    assert stage.raw.expect(pb.BaseCommand.CLOSE_CONSUMER).consumer_id == 7
    assert stage.first() == 3


def test_a_truncated_topic_delivers_nothing_old(stage: Stage, ask: Ask) -> None:
    assert ask("DELETE", f"{stage.path}/truncate") == 204
    assert stage.first() == 5


def test_a_topic_is_trimmed(stage: Stage, ask: Ask) -> None:
    assert ask("POST", f"{stage.path}/trim") == 200
    assert stage.first() == 0


POSTS = [
    "subscription/sub/skip/1",
    "subscription/sub/skip_all",
    "subscription/sub/expireMessages/1",
    "subscription/sub/resetcursor/1",
    "all_subscription/expireMessages/1",
    "trim",
]


def test_topics_that_are_not_there(ask: Ask) -> None:
    path = f"persistent/public/default/{uuid4().hex}"
    assert {ask("POST", f"{path}/{what}") for what in POSTS} == {404}
    assert ask("DELETE", f"{path}/truncate") == ask("GET", f"{path}/explainRetention") == 404


def test_subscriptions_that_are_not_there(stage: Stage, ask: Ask) -> None:
    for what in POSTS[:4]:
        assert ask("POST", f"{stage.path}/{what.replace('sub/', 'other/')}") == 404
    for what in ("expireMessages", "resetcursor"):
        assert ask("POST", f"{stage.path}/subscription/other/{what}", "earliest") == 404


def test_topics_that_keep_nothing(raw: RawClient, ask: Ask) -> None:
    name = uuid4().hex
    raw.produce(f"non-persistent://public/default/{name}")
    path = f"non-persistent/public/default/{name}"
    assert {ask("POST", f"{path}/{what}") for what in POSTS} == {405}
    assert ask("DELETE", f"{path}/truncate") == 412


def test_partitioned_topics(broker: RunningBroker, ask: Ask) -> None:
    topic = f"persistent://public/default/{uuid4().hex}"
    path = topic.replace("://", "/")
    assert ask("PUT", f"{path}/partitions", 2) == 204
    stages = []
    for partition in range(2):
        with RawClient(broker.port) as other:
            stages.append(Stage(other, f"{topic}-partition-{partition}"))
    sub = f"{path}/subscription/sub"
    assert ask("POST", f"{sub}/skip/1") == 405
    assert ask("POST", f"{sub}/expireMessages", "earliest") == 405
    assert ask("POST", f"{sub}/resetcursor", "earliest") == 405
    assert ask("POST", f"{sub}/expireMessages/1") == 204
    assert ask("POST", f"{sub}/expireMessages/1") == 409
    assert ask("POST", f"{path}/all_subscription/expireMessages/1") == 409
    assert ask("POST", f"{sub}/resetcursor/{NOW_MS}") == 204
    assert ask("POST", f"{path}/all_subscription/expireMessages/1") == 204
    assert ask("POST", f"{sub}/skip_all") == 204
    assert ask("POST", f"{path}/trim") == 200
    assert ask("DELETE", f"{path}/truncate") == 204
    assert ask("GET", f"{path}/explainRetention") == 405
    assert ask("POST", f"{path}/subscription/other/skip_all") == 404


# Requests for a namespace -----------------------------------------------------------------


def test_backlogs_of_a_namespace_are_cleared(broker: RunningBroker, ask: Ask) -> None:
    namespace = f"public/{uuid4().hex}"
    stages = []
    for name in ("one", "two"):
        client = RawClient(broker.port)
        stages.append(Stage(client, f"persistent://{namespace}/{name}"))
        stages[-1].subscribe("other", consumer_id=9)
    path = f"namespaces/{namespace}"
    assert ask("POST", f"{path}/clearBacklog/sub") == 204
    assert [stage.first() for stage in stages] == [5, 5]
    assert ask("POST", f"{path}/clearBacklog/missing") == 404
    assert ask("POST", f"{path}/clearBacklog") == 204
    assert ask("POST", f"namespaces/{namespace}-absent/clearBacklog") == 404
    assert ask("POST", f"{path}/unsubscribe/other") == 412
    assert ask("POST", f"{path}/unsubscribe/missing") == 204
    for stage in stages:
        stage.raw.request(pb.CommandCloseConsumer(consumer_id=9))
    assert ask("POST", f"{path}/unsubscribe/other") == 204
    assert ask("POST", f"{path}/clearBacklog/other") == 404
    assert ask("POST", f"{path}/0x00000000_0x00000001/clearBacklog") == 412
    for stage in stages:
        stage.raw.close()


# Explanations ------------------------------------------------------------------------------


def test_what_is_kept_is_explained(broker: RunningBroker, stage: Stage) -> None:
    answer = Admin(broker).get(f"{stage.path}/explainRetention").json
    assert answer["topic"] == stage.topic
    assert TopicName.parse(answer["topic"]).is_persistent
    assert answer["policies"]["retention"] == {
        "value": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
        "source": "settings defaultRetentionTimeInMinutes, defaultRetentionSizeInMB",
    }
    assert [one["name"] for one in answer["subscriptions"]] == ["sub"]
    assert answer["warnings"] == []
    assert answer["subscriptions"][0]["unackedEntries"] == 5
    assert answer["backlogBytes"] == answer["storedBytes"] > 0
    (segment,) = answer["segments"]
    assert not segment["deletable"] and segment["entries"] == 5
    assert [reason["reason"] for reason in segment["keptBecause"]] == ["open"]


def test_a_topic_that_loses_messages_unread_is_warned_of(
    broker: RunningBroker, raw: RawClient, topic: str
) -> None:
    raw.produce(topic)
    path = f"{topic.replace('://', '/')}/explainRetention"
    (warning,) = Admin(broker).get(path).json["warnings"]
    assert "no durable subscription" in warning


def test_quotas_are_looked_at_when_asked(ask: Ask) -> None:
    assert ask("GET", "brokers/backlog-quota-check") == 204
