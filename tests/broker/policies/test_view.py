"""Effective policies of what a view has learned, without a store."""

from magnetar_broker.config import Settings
from magnetar_broker.policies.effective import StoredPolicies
from magnetar_broker.policies.policy import Origin, Resolved, Subject
from magnetar_broker.policies.table import MAX_PRODUCERS
from magnetar_broker.policies.view import PolicyView
from magnetar_proto.names import TopicName

NAME = TopicName.parse("persistent://public/default/topic")
PARTITION = NAME.with_partition(1)
NAMESPACE = NAME.namespace_name


def learn(view: PolicyView, subject: Subject, maximum: int) -> None:
    values = {MAX_PRODUCERS.name: MAX_PRODUCERS.codec.encode(maximum)}
    view.learn(subject, StoredPolicies("key", values, 1))


def test_what_is_learned_is_in_effect_at_once() -> None:
    view = PolicyView(Settings())
    before = view.effective_policies(NAME)
    assert before.resolve(MAX_PRODUCERS) == Resolved(10_000, Origin.BROKER)
    learn(view, NAMESPACE, 2)
    assert view.resolve(MAX_PRODUCERS, NAME) == Resolved(2, Origin.NAMESPACE)
    learn(view, PARTITION, 1)
    assert view.resolve(MAX_PRODUCERS, NAME) == Resolved(1, Origin.TOPIC)
    assert view.resolve(MAX_PRODUCERS, PARTITION) == Resolved(1, Origin.TOPIC)
    assert view.of_namespace(MAX_PRODUCERS, NAMESPACE) == Resolved(2, Origin.NAMESPACE)
    assert before.value(MAX_PRODUCERS) == 10_000


def test_what_was_deleted_is_known_no_more() -> None:
    view = PolicyView(Settings())
    for subject in (NAMESPACE, NAME):
        learn(view, subject, 1)
        view.learn(subject, None)
    assert view.value(MAX_PRODUCERS, NAME) == 10_000
    assert view.known == 0


def test_topics_without_values_share_those_of_their_namespace() -> None:
    view = PolicyView(Settings())
    other = TopicName.parse("persistent://public/default/other")
    shared = view.effective_policies(other)
    assert view.effective_policies(NAME) is shared
    learn(view, NAME, 1)
    assert view.effective_policies(NAME) is not shared
    assert view.effective_policies(other) is shared
