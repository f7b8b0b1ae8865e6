"""Strategies: which schema may follow which, and who may read a topic."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from magnetar_broker.config.domains import SchemaCompatibility
from magnetar_broker.schemas.types import SchemaType

S = SchemaCompatibility


class Form(Protocol):
    """A schema that was understood; forms of one type can be compared."""

    @property
    def identity(self) -> bytes:
        """The same bytes for the same schema."""

    def misfit(self, writer: "Form") -> str | None:
        """Why this one cannot read what a writer of its type wrote; None if it can."""


class Known(NamedTuple):
    """A schema that was understood."""

    type: SchemaType
    form: Form


class Rule(NamedTuple):
    """What a strategy asks for."""

    new_reads_old: bool
    old_reads_new: bool
    all_versions: bool
    """Whether every version counts, or the latest one only."""


BACKWARD: Final = Rule(True, False, False)

FOR_PRODUCERS: Final[Mapping[SchemaCompatibility, Rule]] = {
    S.BACKWARD: BACKWARD,
    S.FORWARD: Rule(False, True, False),
    S.FULL: Rule(True, True, False),
    S.BACKWARD_TRANSITIVE: Rule(True, False, True),
    S.FORWARD_TRANSITIVE: Rule(False, True, True),
    S.FULL_TRANSITIVE: Rule(True, True, True),
}
"""For all who would add a version.  Two strategies ask nothing: one always agrees, one never."""

FOR_CONSUMERS: Final[Mapping[SchemaCompatibility, Rule]] = {
    **FOR_PRODUCERS,
    S.FORWARD: BACKWARD,
    S.FULL: BACKWARD,
    S.FORWARD_TRANSITIVE: BACKWARD,
}
"""A consumer adds nothing: mostly it is enough that it can read the latest version."""


def objection(rule: Rule, new: Known, number: int, old: Known) -> str | None:
    """What a rule has against a schema beside version `number`; None if nothing."""
    if new.type is not old.type:
        return f"it is {new.type.name}, version {number} of the topic's schema is {old.type.name}"
    if rule.new_reads_old:
        why = new.form.misfit(old.form)
        if why is not None:
            return f"as a reader of version {number} it fails: {why}"
    if rule.old_reads_new:
        why = old.form.misfit(new.form)
        if why is not None:
            return f"version {number} as its reader fails: {why}"
    return None
