"""Keys of the metadata store: what names become on disk, and back."""

import pytest

from magnetar_broker.base import metadata_keys as keys
from magnetar_proto.names import TopicName

NAMES = ["persistent://t/n/local", "persistent://t/n/a b+c%é", "persistent://t/n/x-partition-3"]


@pytest.mark.parametrize("name", NAMES)
def test_a_key_names_its_topic(name: str) -> None:
    key = keys.topic_key(TopicName.parse(name))
    assert key.startswith(keys.TOPICS)
    assert keys.topic_of(key) == name


@pytest.mark.parametrize("key", ["", "/topics/", "/topics/t/n/persistent", "/partitions/t/n/p/x"])
def test_what_is_no_key_of_a_topic_stays_as_it_is(key: str) -> None:
    assert keys.topic_of(key) == key


def test_the_keys_are_those_of_the_documented_format() -> None:
    topic = TopicName.parse("persistent://t/n/a b+c")
    assert keys.namespace_key("t/n") == "/namespaces/t/n"
    assert keys.topic_key(topic) == "/topics/t/n/persistent/a+b%2Bc"
    assert keys.partitions_key(topic) == "/partitions/t/n/persistent/a+b%2Bc"
    assert keys.topic_key(topic) == keys.topics_of("t/n", "persistent") + topic.encoded_local
    assert (
        keys.partitions_key(topic) == keys.partitioned_of("t/n", "persistent") + topic.encoded_local
    )
