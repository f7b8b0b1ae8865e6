"""The policies of topics, a line each."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker import policies
from magnetar_broker.broker import Broker
from magnetar_broker.policies import Subject
from magnetar_broker.server.admin.policies.line import TopicLine, speaking_topic
from magnetar_broker.server.admin.policies.quotas import check_topic_retention
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, serving
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.http.table import Route


async def _check_message_size(broker: Broker, subject: Subject, size: int) -> None:
    limit = broker.settings.max_message_size
    if size > limit:
        raise Refused(
            412, f"no message is larger than {limit} bytes (maxMessageSize): expected 0 to {limit}"
        )


LINES: tuple[TopicLine[Any], ...] = (
    TopicLine(
        segment="retention",
        policy=policies.RETENTION,
        empty_unsays=True,
        check=check_topic_retention,
    ),
    TopicLine(segment="messageTTL", policy=policies.MESSAGE_TTL, parameter="messageTTL"),
    TopicLine(
        segment="subscriptionExpirationTime",
        policy=policies.SUBSCRIPTION_EXPIRATION,
        parameter="subscriptionExpirationTime",
    ),
    TopicLine(segment="inactiveTopicPolicies", policy=policies.INACTIVE_TOPICS, empty_unsays=True),
    TopicLine(segment="compactionThreshold", policy=policies.COMPACTION_THRESHOLD),
    TopicLine(
        segment="autoSubscriptionCreation",
        policy=policies.AUTO_SUBSCRIPTION_CREATION,
        empty_unsays=True,
    ),
    TopicLine(
        segment="publishRate", policy=policies.PUBLISH_RATE, unset_status=204, empty_unsays=True
    ),
    TopicLine(segment="dispatchRate", policy=policies.DISPATCH_RATE, empty_unsays=True),
    TopicLine(
        segment="subscriptionDispatchRate",
        policy=policies.SUBSCRIPTION_DISPATCH_RATE,
        empty_unsays=True,
    ),
    TopicLine(segment="subscribeRate", policy=policies.SUBSCRIBE_RATE, empty_unsays=True),
    TopicLine(segment="maxProducers", policy=policies.MAX_PRODUCERS),
    TopicLine(segment="maxConsumers", policy=policies.MAX_CONSUMERS),
    TopicLine(
        segment="maxConsumersPerSubscription",
        policy=policies.MAX_CONSUMERS_PER_SUBSCRIPTION,
        unset_status=204,
    ),
    TopicLine(
        segment="maxSubscriptionsPerTopic", policy=policies.MAX_SUBSCRIPTIONS, unset_status=204
    ),
    TopicLine(
        segment="maxMessageSize",
        policy=policies.MAX_MESSAGE_SIZE,
        unset_status=204,
        check=_check_message_size,
    ),
    TopicLine(
        segment="maxUnackedMessagesOnConsumer",
        policy=policies.MAX_UNACKED_PER_CONSUMER,
        empty_unsays=True,
    ),
    TopicLine(
        segment="maxUnackedMessagesOnSubscription",
        policy=policies.MAX_UNACKED_PER_SUBSCRIPTION,
        empty_unsays=True,
    ),
    TopicLine(
        segment="subscriptionTypesEnabled", policy=policies.SUBSCRIPTION_TYPES, unset=frozenset()
    ),
    TopicLine(
        segment="schemaCompatibilityStrategy",
        policy=policies.SCHEMA_COMPATIBILITY,
        verb="PUT",
        empty_unsays=True,
    ),
    TopicLine(
        segment="schemaValidationEnforced",
        policy=policies.SCHEMA_VALIDATION_ENFORCED,
        unset=False,
        removable=False,
    ),
    TopicLine(segment="deduplicationEnabled", policy=policies.DEDUPLICATION, empty_unsays=True),
    TopicLine(
        segment="deduplicationSnapshotInterval",
        policy=policies.DEDUPLICATION_SNAPSHOT_INTERVAL,
        empty_unsays=True,
    ),
    TopicLine(segment="delayedDelivery", policy=policies.DELAYED_DELIVERY, empty_unsays=True),
)


async def unsay_all(site: Site, request: Request) -> Response:
    """Have a topic say nothing any more."""
    broker = serving(site)
    topic = await speaking_topic(broker, request)
    await broker.enforcement.say(topic, dict.fromkeys(policies.TABLE.values()))
    return Response(status=204)


def routes() -> Iterator[Route[Handler]]:
    """What is answered."""
    for line in LINES:
        yield from line.routes()
    yield Route("DELETE", f"/admin/v2/{TOPIC}/policies", unsay_all)
