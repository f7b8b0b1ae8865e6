"""The dead letters of a subscription: listed, searched, and published again."""

from collections.abc import Collection

from magnetar_broker.authorization.rules import RequiredPermission
from magnetar_broker.server.admin.authorizing import authorize_topic
from magnetar_broker.server.admin.context import AdminContext, serving, subscription_of, topic_of
from magnetar_broker.server.admin.messages.replays import LONGEST_SECONDS, Replay
from magnetar_broker.server.admin.messages.searches import (
    number_of,
    search_request_of,
    shown,
)
from magnetar_broker.server.admin.operations import reading
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.errors import InvalidTopicName
from magnetar_proto.names import TopicName

KINDS = {"DLQ": "-DLQ", "RETRY": "-RETRY"}
"""The suffixes of the topics that clients create for a subscription's failed messages."""


async def dead_letters(context: AdminContext, request: Request) -> Response:
    """Return the messages in a dead letter or retry topic of a subscription, from a position on."""
    return await shown(context, await _one_of(context, request, request.query.get("kind")), request)


async def topics(context: AdminContext, request: Request) -> Response:
    """Return the dead letter and retry topics of a subscription, and the size of their contents."""
    base = await _base(context, request)
    subscription = subscription_of(request)
    answer = []
    for topic, kind in await _topics(context, request, base, subscription, tuple(KINDS)):
        for part in await serving(context).parts(topic):
            found = await context.owners.ask(reading.backlogs, part)
            answer.append(
                {
                    "topic": str(part),
                    "kind": kind,
                    "messages": found["totalMessages"],
                    "bytes": found["storageSize"],
                    "subscriptions": found["cursorDetails"],
                }
            )
    return json_response(answer)


async def _base(context: AdminContext, request: Request) -> TopicName:
    """Return the existing topic that the path names, without its partition."""
    name = topic_of(request)
    if not name.is_persistent:
        raise Refused(405, f"{name} is not persistent: it has no dead letters")
    directory = serving(context)
    if not await directory.catalogue.partitions(name) and not await directory.exists(name):
        raise Refused(404, f"topic {name} does not exist: check the name")
    return name.base


async def _topics(
    context: AdminContext,
    request: Request,
    base: TopicName,
    subscription: str,
    kinds: Collection[str],
) -> list[tuple[TopicName, str]]:
    """Return the existing topics of these kinds, with their kinds; some are of one partition.

    Only topics that the request may consume are looked up, and it is refused if it may consume
    none: so neither answer reveals whether the others exist.
    """
    directory = serving(context)
    found: list[tuple[TopicName, str]] = []
    refused: Refused | None = None
    is_any_allowed = False
    for name in dict.fromkeys((base, *await directory.parts(base))):
        for kind in kinds:
            try:
                topic = TopicName.parse(f"{name}-{subscription}{KINDS[kind]}")
                await authorize_topic(context, request, RequiredPermission.CONSUME, topic)
            except InvalidTopicName:
                continue
            except Refused as error:
                refused = error
                continue
            is_any_allowed = True
            if await directory.catalogue.partitions(topic) or await directory.exists(topic):
                found.append((topic, kind))
    if refused is not None and not is_any_allowed:
        raise refused
    return found


async def _one_of(context: AdminContext, request: Request, kind: object) -> TopicName:
    """Return the only topic of a kind, or the one of the kind and the partition of the path."""
    if kind is None:
        kind = "DLQ"
    if kind not in KINDS:
        raise Refused(412, f"kind is {kind!r}: expected {' or '.join(KINDS)}")
    directory, base = serving(context), await _base(context, request)
    name, subscription = topic_of(request), subscription_of(request)
    known = await _topics(context, request, base, subscription, (str(kind),))
    all_of_kind = [topic for topic, _ in known]
    if name.partition >= 0:
        wanted = f"{name}-{subscription}{KINDS[str(kind)]}"
        all_of_kind = [topic for topic in all_of_kind if str(topic) == wanted] or all_of_kind
    if not all_of_kind:
        raise Refused(404, f"subscription {subscription} of {base} has no {kind} topic")
    if len(all_of_kind) > 1:
        names = ", ".join(map(str, all_of_kind))
        raise Refused(412, f"there are several: {names}; name the partition in the path")
    (topic,) = all_of_kind
    if await directory.catalogue.partitions(topic):
        raise Refused(412, f"{topic} is partitioned: search its partitions one by one")
    return topic


async def _named(context: AdminContext, request: Request, name: object) -> TopicName:
    """Return a dead letter topic with a name of its own, in the namespace of the path."""
    base, directory = await _base(context, request), serving(context)
    if not isinstance(name, str):
        raise Refused(400, f"topic is {name!r}: expected the name of a dead letter topic")
    topic = TopicName.parse(
        name if "://" in name else f"{base.domain}://{base.namespace_name}/{name}"
    )
    if topic.namespace_name != base.namespace_name or not topic.is_persistent or topic.base == base:
        raise Refused(412, f"topic is {topic}: expected another one of {base.namespace_name}")
    await authorize_topic(context, request, RequiredPermission.CONSUME, topic)
    if await directory.catalogue.partitions(topic) and topic.partition < 0:
        raise Refused(412, f"{topic} is partitioned: name its partitions one by one")
    if not await directory.exists(topic):
        raise Refused(404, f"topic {topic} does not exist: check the name")
    return topic


async def replay(context: AdminContext, request: Request) -> Response:
    """Publish dead letters to the topic that they came from; with `dryRun`, only count them.

    The dead letters are kept: acknowledge or delete them once they are handled.
    """
    body = request.json() if request.body.strip() else {}
    if not isinstance(body, dict):
        raise Refused(400, "the body: expected an object")
    wanted, named = search_request_of(body), body.get("topic")
    if named is None:
        source = await _one_of(context, request, body.get("kind"))
    else:
        source = await _named(context, request, named)
    rate = number_of(body, "rate", 100, 10_000)
    if wanted.most_found > rate * LONGEST_SECONDS:
        raise Refused(
            412,
            f"limit is {wanted.most_found} and rate {rate} a second: that takes more than "
            f"{LONGEST_SECONDS} s; lower the limit, and continue with `from`",
        )
    base = await _base(context, request)
    running = Replay(context, base, source, wanted, rate, body.get("dryRun") is True)
    await running.run()
    return json_response(running.answer(), 409 if running.failed else 200)
