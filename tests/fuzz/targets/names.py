"""Names of topics and namespaces: refused, or the same however often they are written and read.

Input: the name in UTF-8, halves of surrogate pairs allowed.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_plus

from magnetar_proto.errors import InvalidTopicName
from magnetar_proto.names import DOMAINS, MAX_PARTITION, NamespaceName, TopicName

LONGEST: Final = 200


def run(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass" if is_surrogate(data) else "replace")
    namespace(text)
    try:
        name = TopicName.parse(text)
    except InvalidTopicName:
        return
    assert TopicName.parse(str(name)) == name
    assert str(name).encode().decode() == str(name)
    assert name.domain in DOMAINS and name.is_persistent == (name.domain == "persistent")
    assert "/" not in name.local and name.local.strip()
    assert namespace(name.namespace_name)
    encoded = name.encoded_local
    assert unquote_plus(encoded, errors="strict") == name.local
    assert encoded.isascii() and not set(encoded) & set("/ ~?#&")
    assert name.base.base.local == name.base.local or name.base.partition >= 0
    assert -1 <= name.partition <= MAX_PARTITION
    if name.partition >= 0:
        assert name.base.with_partition(name.partition) == name or name.base.partition >= 0
    else:
        assert name.base is name
    for index in (0, 7, MAX_PARTITION):
        part = name.with_partition(index)
        assert (part.partition, part.base) == (index, name.base)
        assert TopicName.parse(str(part)) == part
    assert name.is_system in (True, False)


def namespace(text: str) -> bool:
    """Whether it is a namespace's name."""
    try:
        name = NamespaceName.parse(text)
    except InvalidTopicName:
        return False
    assert str(name) == text and NamespaceName.parse(str(name)) == name
    return True


def is_surrogate(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def seeds() -> Iterator[bytes]:
    for text in (
        "t", "a/b/c", "public/default/t-partition-3", "persistent://public/default/t",
        "non-persistent://public/default/t-partition-2147483647", "persistent://a/b/c/d",
        "persistent://public/default/\u00e9 \U0001f600+%2F*~", "pulsar/system/__transaction_log_1",
        "x-partition-1-partition-2", "t-partition-01", "t-partition-2147483648", "tenant/namespace",
        "public/default/__change_events-partition-0", "\ud800", "persistent:///n/t",
    ):  # fmt: skip
        yield text.encode("utf-8", "surrogatepass")
