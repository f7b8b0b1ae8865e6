"""A broker that is one process: the directory of names, and the broker that serves all topics."""

from typing import NamedTuple

from magnetar_broker.authentication.authenticator import Authenticator
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.names.directory import Directory
from magnetar_broker.placement.ownership import Ownership
from magnetar_broker.policies.stored import Policies
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_storage.log.engine import Engine


class Standalone(NamedTuple):
    """The two halves; starting and closing the broker starts and stops the directory."""

    directory: Directory
    broker: Broker


def standalone(
    settings: Settings,
    engine: Engine,
    ownership: Ownership,
    authenticator: Authenticator | None = None,
) -> Standalone:
    """Return both halves on one engine; they call each other directly."""
    # No other process has this broker's metadata: the lock of the data directory is the guard.
    metadata = GuardedMetadata(engine.metadata, guard=None)
    runtime = NamesRuntime(metadata, engine.clock, engine.tasks, engine.space)
    policies = Policies(metadata, settings)
    topic_host = LocalTopicHost(settings, engine, policies)
    directory = Directory(settings, runtime, ownership, topic_host, policies)
    broker = Broker(settings, engine, topic_host, directory, authenticator=authenticator)
    return Standalone(directory, broker)
