"""GET_TOPICS_OF_NAMESPACE and WATCH_TOPIC_LIST."""

from magnetar_broker.base.errors import (
    BadPattern,
    LimitReached,
    MetadataError,
    NotAllowed,
    PatternUnsupported,
)
from magnetar_broker.names.topic_pattern import (
    TopicPattern,
    without_domain,
)
from magnetar_broker.session.refusals import storage_errors_as
from magnetar_broker.session.session import Session
from magnetar_broker.session.topic_watcher import TopicWatcher
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import NamespaceName

Mode = pb.CommandGetTopicsOfNamespace.Mode
MODES = {
    Mode.PERSISTENT: (True, False),
    Mode.NON_PERSISTENT: (False, True),
    Mode.ALL: (True, True),
}
"""Whether persistent topics are listed, and whether non-persistent ones are."""


async def on_topics_of_namespace(session: Session, command: pb.CommandGetTopicsOfNamespace) -> None:
    """List topics, filtered by the pattern if the broker evaluates it (`filtered`)."""
    names = session.broker.names
    with storage_errors_as(MetadataError), names.lookup():
        namespace = str(NamespaceName.parse(command.namespace))
        pattern = _pattern_of(session, command)
        persistent, non_persistent = MODES[command.mode]
        listed = await names.topics(namespace, pattern, persistent, non_persistent)
    changed = not command.HasField("topics_hash") or command.topics_hash != listed.hash
    session.reply(
        pb.CommandGetTopicsOfNamespaceResponse(
            request_id=command.request_id,
            topics=listed.names if changed else [],
            filtered=pattern is not None,
            topics_hash=listed.hash,
            changed=changed,
        )
    )


def _pattern_of(session: Session, command: pb.CommandGetTopicsOfNamespace) -> TopicPattern | None:
    """Return the pattern that the broker evaluates; None without one, or if the client does it."""
    settings = session.broker.settings
    if not command.HasField("topics_pattern") or not (
        settings.enable_broker_side_subscription_pattern_evaluation
    ):
        return None
    if len(command.topics_pattern) > settings.subscription_pattern_max_length:
        return None
    try:
        return TopicPattern(command.topics_pattern)
    except BadPattern as error:
        raise MetadataError(str(error)) from error
    except PatternUnsupported:
        return None


async def on_watch_topics(session: Session, command: pb.CommandWatchTopicList) -> None:
    """List the topics of a pattern now, and send every change from now on."""
    settings, names, watchers = session.broker.settings, session.broker.names, session.watchers
    if not settings.enable_broker_topic_list_watcher:
        raise NotAllowed(
            "topic list watchers are disabled on this broker (enableBrokerTopicListWatcher=false): "
            "list topics instead"
        )
    if len(without_domain(command.topics_pattern)) > settings.subscription_pattern_max_length:
        raise NotAllowed(
            f"the pattern exceeds {settings.subscription_pattern_max_length} characters "
            "(subscriptionPatternMaxLength): list topics instead"
        )
    with storage_errors_as(MetadataError), names.lookup():
        namespace = str(NamespaceName.parse(command.namespace))
        pattern = TopicPattern(command.topics_pattern)
        listed = await names.watch(namespace, pattern)
    if (
        session.open_resources is not None
    ):  # permissions may have changed while the list was fetched
        # promise: a list of topics that was revoked meanwhile is not sent
        session.open_resources.check(command)
    watcher = TopicWatcher(session, command.watcher_id, namespace, listed)
    if session.is_over:
        watcher.end()
        return
    limit = settings.magnetar_max_topic_watchers_per_connection
    if command.watcher_id not in watchers and 0 < limit <= len(watchers):
        watcher.end()
        raise LimitReached(
            f"this connection has {limit} topic list watchers, which is the limit "
            "(magnetarMaxTopicWatchersPerConnection): close one, or list topics instead"
        )
    unwatch(session, command.watcher_id)
    watchers[command.watcher_id] = watcher
    known = command.HasField("topics_hash") and command.topics_hash == listed.hash
    session.reply(
        pb.CommandWatchTopicListSuccess(
            request_id=command.request_id,
            watcher_id=command.watcher_id,
            topic=[] if known else listed.names,
            topics_hash=listed.hash,
        )
    )


def on_watch_topics_close(session: Session, command: pb.CommandWatchTopicListClose) -> None:
    """Answer with success in any case."""
    unwatch(session, command.watcher_id)
    session.reply(pb.CommandSuccess(request_id=command.request_id))


def unwatch(session: Session, watcher_id: int) -> None:
    """End a watcher, if there is one."""
    watcher = session.watchers.pop(watcher_id, None)
    if watcher is not None:
        watcher.end()
