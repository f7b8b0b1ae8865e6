"""Topic and namespace names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto.errors import InvalidTopicName, ProtocolError
from magnetar_proto.names import MAX_NAME, NamespaceName, TopicName

part = st.text("abcXYZ019-=:._", min_size=1, max_size=10)
local = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1)
names = st.builds(
    TopicName,
    st.sampled_from(["persistent", "non-persistent"]),
    part,
    part,
    local.filter(str.strip),
)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("x", "persistent://public/default/x"),
        ("t/n/x", "persistent://t/n/x"),
        ("persistent://t/n/x", "persistent://t/n/x"),
        ("non-persistent://t/n/x", "non-persistent://t/n/x"),
        ("a b?#%:", "persistent://public/default/a b?#%:"),
        ("t-=:._9/n/x", "persistent://t-=:._9/n/x"),
    ],
)
def test_accepted(text: str, full: str) -> None:
    assert str(TopicName.parse(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "n/x",
        "/",
        "t//x",
        "/n/x",
        "t/n/",
        "t/n/ ",
        "t/n/x/y",
        "persistent://x",
        "persistent://n/x",
        "persistent://",
        "persistent://t/c/n/x",
        "kafka://t/n/x",
        "://t/n/x",
        "Persistent://t/n/x",
        "t t/n/x",
        "t/n\u00e9/x",
        "t\n/n/x",
        "x\ud800",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidTopicName):
        TopicName.parse(text)


def test_names_have_a_longest_length() -> None:
    text = "persistent://t/n/"
    longest = text + "x" * (MAX_NAME - len(text))
    assert str(TopicName.parse(longest)) == longest
    namespace = "t/" + "n" * (MAX_NAME - 2)
    assert str(NamespaceName.parse(namespace)) == namespace
    for parse, name in ((TopicName.parse, longest), (NamespaceName.parse, namespace)):
        with pytest.raises(InvalidTopicName, match=f"the limit is {MAX_NAME}") as refused:
            parse(name + "x")
        assert len(str(refused.value)) < 200


def test_a_bad_name_is_a_value_error_and_one_of_ours() -> None:
    assert issubclass(InvalidTopicName, ValueError)
    assert issubclass(InvalidTopicName, ProtocolError)


@given(names)
def test_a_name_survives_as_text(name: TopicName) -> None:
    assert TopicName.parse(str(name)) == name


@given(st.text())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        name = TopicName.parse(text)
    except InvalidTopicName:
        return
    assert TopicName.parse(str(name)) == name
    assert NamespaceName.parse(name.namespace_name) == NamespaceName(name.tenant, name.namespace)
    assert name.encoded_local.isascii()


@pytest.mark.parametrize(
    ("text", "base", "index"),
    [
        ("x-partition-0", "x", 0),
        ("x-partition-12", "x", 12),
        ("x-partition-1-partition-2", "x-partition-1", 2),
        ("x-partition-2147483647", "x", 2**31 - 1),
        ("x", "x", -1),
        ("x-partition-", "x-partition-", -1),
        ("x-partition-01", "x-partition-01", -1),
        ("x-partition--1", "x-partition--1", -1),
        ("x-partition-1a", "x-partition-1a", -1),
        ("x-partition-\u0661", "x-partition-\u0661", -1),
        ("x-partition-2147483648", "x-partition-2147483648", -1),
        ("x-partition-1\n", "x-partition-1\n", -1),
        ("-partition-1", "-partition-1", -1),
        ("x\n-partition-1", "x\n", 1),
    ],
)
def test_partitions(text: str, base: str, index: int) -> None:
    name = TopicName.parse(text)
    assert name.partition == index
    assert name.base.local == base


@given(names, st.integers(0, 2**31 - 1))
def test_a_partition_knows_its_topic(name: TopicName, index: int) -> None:
    partition = name.with_partition(index)
    assert partition.partition == index
    assert partition.base == name.base
    assert partition.namespace_name == name.namespace_name
    assert partition.domain == name.domain


@pytest.mark.parametrize("index", [-1, 2**31])
def test_no_such_partition(index: int) -> None:
    with pytest.raises(InvalidTopicName):
        TopicName.parse("x").with_partition(index)


def test_domains() -> None:
    assert TopicName.parse("x").is_persistent
    assert not TopicName.parse("non-persistent://t/n/x").is_persistent


@pytest.mark.parametrize(
    ("text", "encoded"),
    [("x", "x"), ("a b", "a+b"), ("\u00e9~*", "%C3%A9%7E*"), ("a.b-c_d", "a.b-c_d"), ("%", "%25")],
)
def test_encoded_local(text: str, encoded: str) -> None:
    assert TopicName.parse(text).encoded_local == encoded


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("pulsar/system/heartbeat", True),
        ("pulsar/system/heartbeat-2", True),
        ("t/n/heartbeat", False),
        ("t/n/__change_events", True),
        ("t/n/__change_events-partition-0", True),
        ("t/n/__transaction_buffer_snapshot", True),
        ("t/n/x-sub__transaction_pending_ack", True),
        ("pulsar/system/__transaction_log_3", True),
        ("pulsar/system/transaction_coordinator_assign-partition-0", True),
        ("pulsar/system/x", False),
        ("t/n/transaction_coordinator_assign", False),
        ("t/n/x", False),
        ("t/n/__x", False),
    ],
)
def test_system_topics(text: str, system: bool) -> None:
    assert TopicName.parse(text).is_system is system


@pytest.mark.parametrize("text", ["public/default", "t-=:._/n"])
def test_namespaces(text: str) -> None:
    assert str(NamespaceName.parse(text)) == text


@pytest.mark.parametrize("text", ["", "t", "t/", "/n", "t/n/x", "t/c n", "t/n\n"])
def test_refused_namespaces(text: str) -> None:
    with pytest.raises(InvalidTopicName):
        NamespaceName.parse(text)
