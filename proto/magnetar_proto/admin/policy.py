"""The declaration of a policy: its levels, their requests, and the commands for them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from magnetar_proto.admin.endpoint import TENANT_ADMIN, Endpoint, Parameter, endpoint, flag

APPLIED = flag("applied", "-ap, --applied", "The value in effect, also if set elsewhere.")
GLOBAL = flag("isGlobal", "-g, --global", "Of all clusters: must not be given here.")
ROOTS = {"namespace": "namespaces/{namespace}", "topic": "{topic}"}
GROUPS = {"namespace": "namespaces", "topic": "topicPolicies"}
ACTIONS = ("get", "set", "remove")


class Level(NamedTuple):
    """A policy on a path of its own, of namespaces or of topics: GET, a verb that sets, DELETE."""

    segment: str
    """The last segment of the path."""
    command: str = ""
    """The name of the policy's commands after get-, set- and remove-; without it there are none."""
    parameters: tuple[Parameter, ...] = ()
    """The parameters of the command that sets the policy."""
    verb: str = "POST"
    when_unset: Any = None
    """The value that GET answers if the policy is unset, as JSON; None is an empty body."""
    unset_status: int = 200
    """The status with that empty body."""
    set_status: int = 204
    """The status of the answer to a change."""
    empty_deletes: bool = False
    """Whether an empty body, or null, deletes the policy instead of being refused."""
    removable: bool = True
    """Whether there is a DELETE."""
    removed_at: str = ""
    """The last segment of the path of DELETE, if it is another one."""
    shows_default: bool = False
    """Whether GET answers the default if the policy is unset."""
    implied: Any = None
    """The value that a request without a value sets, as JSON."""
    in_query: bool = False
    """Whether the query holds the value, under the name of the segment."""
    refused: int = 0
    """The status without permission; 0 for the usual one."""
    raw: bool = False
    """Whether GET answers the text without quotes, and a body that is not JSON is the text."""
    names: tuple[str, str, str] = ("get-{}", "set-{}", "remove-{}")
    """The names of the commands; an empty one stands for no command."""
    has_applied: bool = False
    """Whether the command of a namespace can ask for the value in effect, as that of a topic."""
    also: tuple[Parameter, ...] = ()
    """Parameters that all commands of the policy have."""
    instead: tuple[str, str] | None = None
    """The name of a parameter, and the path to which the commands send requests with it."""


class SpecialPath(NamedTuple):
    """A policy on a path shared with other policies; its handlers are written by hand."""

    documented: str
    """The verbs and the path, for the documentation."""


class Member(NamedTuple):
    """A policy in the JSON object with all policies of a namespace."""

    name: str
    by_cluster: bool = False
    """Whether the value of the policy is an object with one value per cluster."""
    when_unset: Any = None
    """The value that is written if the policy is unset; None leaves the member out."""


class Declared(NamedTuple):
    """The declaration of one policy."""

    name: str
    """The name of the policy in the metadata store."""
    what: str
    """The policy as the object of a sentence: Show ..., Set ..., Remove ..."""
    meaning: str
    """The meaning for the documentation, with special values."""
    namespace: Level | SpecialPath | None = None
    """The path for namespaces; None if namespaces do not have the policy."""
    topic: Level | SpecialPath | None = None
    """The path for topics; None if topics do not have the policy."""
    member: Member | None = None
    settings: tuple[str, ...] = ()
    """The settings that the default comes from."""
    no_effect: str = ""
    """The reason why the policy is only stored and shown; empty if it has an effect."""

    def endpoints(self, level: str) -> Iterator[Endpoint]:
        """Yield the requests of a level: the one that gets, that sets, and that removes."""
        on = getattr(self, level)
        if not isinstance(on, Level):
            return
        path, group = ROOTS[level], GROUPS[level]
        everywhere = (GLOBAL,) if level == "topic" else ()
        instead = on.instead and (on.instead[0], f"/admin/v2/{path}/{on.instead[1]}")
        applied = (APPLIED,) if level == "topic" else ()
        if on.has_applied:
            applied = (APPLIED._replace(ignored=True),)

        def one(action: str, request: str, text: str, *own: Parameter, **more: Any) -> Endpoint:
            name = on.names[ACTIONS.index(action)]
            words = f"{group} {name.format(on.command)}" if name and on.command else ""
            more |= {"refused": on.refused, "instead": instead}
            return endpoint(
                f"policies.{self.name}.{action}", request, TENANT_ADMIN, text, words,
                *on.also, *own, *everywhere, **more,
            )  # fmt: skip

        unset = (200, 204) if on.unset_status == 204 else ()
        at = f"{path}/{on.segment}"
        yield one("get", f"GET {at}", f"Show {self.what}.", *applied, success=unset)
        setting = f"{on.verb} {at}"
        yield one("set", setting, f"Set {self.what}.", *on.parameters, success=(on.set_status,))
        if on.removable:
            text = f"Remove {self.what}; the next level is in effect again."
            yield one("remove", f"DELETE {path}/{on.removed_at or on.segment}", text)
