"""The statistics of a partitioned topic, computed from those of its partitions."""

from typing import Any

from magnetar_broker.server.admin.partition_sums import joined_stats
from magnetar_broker.statistics.topic_stats import UNUSED

CONSUMER = {
    "msgRateOut": 1.5,
    "availablePermits": 10,
    "unackedMessages": 2,
    "consumerName": "you",
    "address": "/127.0.0.1:1",
    "blockedConsumerOnUnackedMsgs": False,
    "lastAckedTimestamp": 5000,
    "lastConsumedTimestamp": 7000,
    "firstConsumedFlowTimestamp": 3000,
    "lastAckedTime": "1970-01-01T00:00:05Z",
    "lastConsumedTime": "1970-01-01T00:00:07Z",
    "metadata": {"a": "b"},
    "keyHashRangeArrays": [[1, 65535]],
}
PUBLISHER = {
    "msgRateIn": 2.0,
    "msgThroughputIn": 20.0,
    "averageMsgSize": 10.0,
    "producerId": 3,
    "producerName": "me",
    "metadata": {},
}


def partition(**fields: Any) -> dict[str, Any]:
    return UNUSED | fields


def subscription(**fields: Any) -> dict[str, Any]:
    whole = {
        "msgBacklog": 0,
        "backlogSize": 0,
        "type": "Shared",
        "isDurable": True,
        "consumers": [],
    }
    return whole | fields


def test_counters_and_rates_are_added_up() -> None:
    found = joined_stats(
        [
            partition(msgInCounter=1, msgRateIn=0.5, msgThroughputIn=5.0, ownerBroker="a:1"),
            partition(msgInCounter=2, msgRateIn=1.5, msgThroughputIn=35.0, ownerBroker="b:1"),
        ]
    )
    assert (found["msgInCounter"], found["msgRateIn"], found["averageMsgSize"]) == (3, 2.0, 20.0)
    assert "ownerBroker" not in found


def test_times_and_limits_are_not_added_up() -> None:
    found = joined_stats(
        [
            partition(
                lastPublishTimeStamp=9, topicCreationTimeStamp=8, backlogQuotaLimitSize=100,
                earliestMsgPublishTimeInBacklogs=0, oldestBacklogMessageAgeSeconds=-1,
            ),
            partition(
                lastPublishTimeStamp=7, topicCreationTimeStamp=0, backlogQuotaLimitSize=100,
                earliestMsgPublishTimeInBacklogs=4, oldestBacklogMessageAgeSeconds=6,
                oldestBacklogMessageSubscriptionName="sub",
            ),
            partition(
                lastPublishTimeStamp=7, topicCreationTimeStamp=5, backlogQuotaLimitSize=100,
                earliestMsgPublishTimeInBacklogs=6, oldestBacklogMessageAgeSeconds=-1,
            ),
        ]
    )  # fmt: skip
    assert (found["lastPublishTimeStamp"], found["topicCreationTimeStamp"]) == (9, 5)
    assert (found["backlogQuotaLimitSize"], found["earliestMsgPublishTimeInBacklogs"]) == (100, 4)
    assert found["oldestBacklogMessageAgeSeconds"] == 6
    assert found["oldestBacklogMessageSubscriptionName"] == "sub"


def test_partitions_without_a_backlog_have_no_oldest_message() -> None:
    unused = partition(oldestBacklogMessageAgeSeconds=-1)
    found = joined_stats([unused, unused])
    assert found["oldestBacklogMessageAgeSeconds"] == 0
    assert "oldestBacklogMessageSubscriptionName" not in found


def test_a_subscription_of_some_partitions_counts_where_it_is() -> None:
    found = joined_stats(
        [
            partition(subscriptions={"sub": subscription(msgBacklog=1, backlogSize=10)}),
            partition(subscriptions={"sub": subscription(msgBacklog=2, backlogSize=5)}),
            partition(subscriptions={"other": subscription(msgBacklog=4, type="Failover")}),
        ]
    )["subscriptions"]
    assert (found["sub"]["msgBacklog"], found["sub"]["backlogSize"]) == (3, 15)
    assert (found["other"]["msgBacklog"], found["other"]["type"]) == (4, "Failover")
    assert found["sub"]["isDurable"] is True


def test_a_size_that_was_not_asked_for_stays_so() -> None:
    parts = [partition(subscriptions={"sub": subscription(backlogSize=-1)})] * 3
    assert joined_stats(parts)["subscriptions"]["sub"]["backlogSize"] == -1


def test_clients_of_partitions_are_one_each_by_their_order() -> None:
    parts = [
        partition(
            publishers=[PUBLISHER],
            subscriptions={"sub": subscription(consumers=[CONSUMER])},
        )
    ] * 2
    found = joined_stats(parts)
    (me,), (you,) = found["publishers"], found["subscriptions"]["sub"]["consumers"]
    assert me == {
        "msgRateIn": 4.0, "msgThroughputIn": 40.0, "averageMsgSize": 10.0, "producerId": 0
    }  # fmt: skip
    assert (you["msgRateOut"], you["availablePermits"], you["unackedMessages"]) == (3.0, 20, 4)
    assert (you["consumerName"], you["lastConsumedTimestamp"]) == ("you", 7000)
    assert you["firstConsumedFlowTimestamp"] == 3000
    assert you["lastAckedTime"] == "1970-01-01T00:00:05Z"
    assert not {"address", "metadata", "keyHashRangeArrays"} & you.keys()


def test_what_is_joined_stays_as_it_was() -> None:
    part = partition(subscriptions={"sub": subscription(consumers=[CONSUMER])})
    before = repr(part)
    joined_stats([part, part])
    assert repr(part) == before
