"""Patterns of topic names, as clients send them to list or watch topics.

They are matched in time linear in the name (RE2): the whole broker waits meanwhile.
"""

import re
from typing import Any

from magnetar_broker.base.errors import BadPattern, PatternUnsupported
from magnetar_proto.names import PARTITION_SUFFIX, TopicName

DOMAIN_END = "://"


def without_domain(text: str) -> str:
    """Return the pattern, or name, without `persistent://`: topics of any domain are matched."""
    domain, separator, rest = text.partition(DOMAIN_END)
    return rest if separator else domain


class TopicPattern:
    """Matches whole names `tenant/namespace/topic`; a partition has its topic's name."""

    def __init__(self, text: str) -> None:
        """Raise `BadPattern`, or `PatternUnsupported`, at which clients match by themselves."""
        self.text = without_domain(text)
        self._matches = _compiled(self.text).fullmatch

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a full topic name."""
        if PARTITION_SUFFIX in name:
            name = str(TopicName.parse(name).base)
        return self._matches(without_domain(name)) is not None


def _compiled(text: str) -> Any:
    import re2  # noqa: PLC0415 (not for the start)

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        refused = error
    try:
        re.compile(text)
    except re.error as error:
        raise BadPattern(f"{text!r} is not a regular expression: {error}") from error
    raise PatternUnsupported(
        f"{text!r} cannot be matched in linear time ({_words(refused)}): "
        "write it without look-around and back-references, or list topics and match in the client"
    )


def _words(error: Exception) -> str:
    why = error.args[0] if error.args else ""
    return why.decode() if isinstance(why, bytes) else str(why)
