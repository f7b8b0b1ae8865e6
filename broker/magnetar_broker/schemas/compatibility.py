"""Compatibility strategies: which schemas producers can add and consumers use, and refusals."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from magnetar_broker.config.domains import SchemaCompatibility
from magnetar_broker.schemas.types import SchemaType

S = SchemaCompatibility


class ParsedSchema(Protocol):
    """A schema after parsing; those of one type can be compared."""

    @property
    def identity(self) -> bytes:
        """Bytes that are equal for equal schemas, however they are written."""

    def incompatibility(self, writer: "ParsedSchema") -> str | None:
        """Return why data of `writer`, of the same type, is unreadable with this; None if not."""


class KnownSchema(NamedTuple):
    """A parsed schema with its type."""

    type: SchemaType
    parsed: ParsedSchema


class Rule(NamedTuple):
    """The checks of a strategy."""

    new_reads_old: bool
    old_reads_new: bool
    all_versions: bool
    """Whether a schema is compared with all versions, and not only with the latest."""


BACKWARD: Final = Rule(True, False, False)

FOR_PRODUCERS: Final[Mapping[SchemaCompatibility, Rule]] = {
    S.BACKWARD: BACKWARD,
    S.FORWARD: Rule(False, True, False),
    S.FULL: Rule(True, True, False),
    S.BACKWARD_TRANSITIVE: Rule(True, False, True),
    S.FORWARD_TRANSITIVE: Rule(False, True, True),
    S.FULL_TRANSITIVE: Rule(True, True, True),
}
"""The rules for new versions; ALWAYS_COMPATIBLE and ALWAYS_INCOMPATIBLE need no checks."""

FOR_CONSUMERS: Final[Mapping[SchemaCompatibility, Rule]] = {
    **FOR_PRODUCERS,
    S.FORWARD: BACKWARD,
    S.FULL: BACKWARD,
    S.FORWARD_TRANSITIVE: BACKWARD,
}
"""A consumer adds no version: mostly it only has to read the latest one."""


def objection(rule: Rule, new: KnownSchema, number: int, old: KnownSchema) -> str | None:
    """Return why a rule refuses a schema next to version `number`; None if it accepts it."""
    if new.type is not old.type:
        return f"it is {new.type.name}, version {number} of the topic's schema is {old.type.name}"
    if rule.new_reads_old:
        why = new.parsed.incompatibility(old.parsed)
        if why is not None:
            return f"as a reader of version {number} it fails: {why}"
    if rule.old_reads_new:
        why = old.parsed.incompatibility(new.parsed)
        if why is not None:
            return f"version {number} as its reader fails: {why}"
    return None
