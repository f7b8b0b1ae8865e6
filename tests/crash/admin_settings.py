"""Policies of namespaces and topics, and schemas; the books follow."""

import json
from typing import Any

from crash.admin_books import DROP, KEEP, LogBook, NamespaceBook, Schemas, Values
from crash.admin_desk import Desk, Wrong
from crash.admin_eyes import RETENTIONS, count_producers

STRATEGIES = ("ALWAYS_COMPATIBLE", "ALWAYS_INCOMPATIBLE")
POLICIES: dict[str, tuple[str, str, tuple[object, ...]]] = {
    "retention": ("retention", "retention", (KEEP, DROP)),
    "message_ttl": ("messageTTL", "messageTTL?messageTTL=", (3600, 0)),
    "max_producers": ("maxProducersPerTopic", "maxProducers", (1, 2, 3)),
    "schema_compatibility": (
        "schemaCompatibilityStrategy", "schemaCompatibilityStrategy", STRATEGIES
    ),
}  # fmt: skip
"""Paths of namespaces, of topics, and values; what is published is older than any time to live."""


class AdminSettings(Desk):
    """Namespaces with their policies, and those of topics."""

    def _make_namespace(self) -> None:
        after = NamespaceBook(exists=True, policies={"message_ttl": 3600, "retention": KEEP})
        body = {"message_ttl_in_seconds": 3600, "retention_policies": RETENTIONS[KEEP]}
        self._ask("PUT", f"namespaces/{self.namespace}", after, body)
        self._count("make namespace")

    def _delete_namespace(self) -> None:
        if self._dice.random() < 0.5:
            return
        path = f"namespaces/{self.namespace}?force=true"
        self._ask("DELETE", path, NamespaceBook())
        self._count("delete namespace")

    def _set_topic(self) -> None:
        """Set or remove a policy of a topic."""
        after, name = self.book.copy(), self._family()
        self._change(after, after.families[name].policies, self._path(name), 1)

    def _set_all(self) -> None:
        """Set or remove a policy of the namespace."""
        after = self.book.copy()
        self._change(after, after.policies, f"namespaces/{self.namespace}", 0)

    def _change(self, after: NamespaceBook, policies: Values, path: str, level: int) -> None:
        policy = self._dice.choice([*POLICIES])
        segment, values = POLICIES[policy][level], POLICIES[policy][2]
        path, is_schema = f"{path}/{segment}", policy == "schema_compatibility"
        body: Any
        if self._dice.random() < 0.4:
            policies.pop(policy, None)
            method = "PUT" if is_schema else "DELETE"
            path, body = path.partition("?")[0], "UNDEFINED" if is_schema else None
        else:
            value: Any = self._dice.choice(values)
            policies[policy], method = value, "PUT" if is_schema else "POST"
            body = RETENTIONS[value] if policy == "retention" else value
            if path.endswith("="):
                path, body = f"{path}{value}", None
        between = after.copy()  # not every subscription yet, or it ended before any expiry
        if policy == "message_ttl":
            self._expire(after)
        self._ask(method, path, after, body, also=(between,))
        self._check_producers(policy)
        self._check_expired(policy)
        self._count(f"{policy} of a {'topic' if level else 'namespace'}")

    def _expire(self, after: NamespaceBook) -> None:
        """All messages are too old, and loaded topics check when the policy changes."""
        for name, family in after.families.items():
            if after.holds("message_ttl", name) != self.book.holds("message_ttl", name):
                for log in family.logs.values():
                    for span in log.subscriptions.values() if log.loaded else ():
                        if after.holds("message_ttl", name)[0]:
                            log.pass_all(span)

    def _check_producers(self, policy: str) -> None:
        """Loaded topics apply the limit as soon as it was answered."""
        if policy != "max_producers" or self._flying:
            return
        for name, family in self.book.families.items():
            limit = self.book.holds(policy, name)[0]
            for index, log in family.logs.items():
                if log.loaded and not log.terminated and isinstance(limit, int) and limit < 4:
                    found = count_producers(self._clients, self._url(name, index))
                    if found != limit:
                        raise Wrong(f"{self._url(name, index)} takes {found} producers of {limit}")

    def _check_expired(self, policy: str) -> None:
        """Subscriptions of loaded topics have nothing that is too old any more."""
        if policy != "message_ttl" or self._flying:
            return
        for name, family in self.book.families.items():
            for index, log in family.logs.items():
                if log.loaded and log.subscriptions and self.book.holds(policy, name)[0]:
                    self._check_backlogs(self._path(name, index), log)

    def _check_backlogs(self, path: str, log: LogBook) -> None:
        explained = self._read(f"{path}/explainRetention")["subscriptions"]
        waiting = {one["name"]: one["unackedEntries"] for one in explained}
        late = [name for name, span in log.subscriptions.items()
                if waiting[name] and span.low == log.top]  # fmt: skip
        if late:
            raise Wrong(f"{path}: {late} wait for messages that are too old: {explained}")

    # Schemas ------------------------------------------------------------------------

    def _register(self) -> None:
        """A new one, or one that is there and keeps its number."""
        name, after = self._family(), self.book.copy()
        schemas = after.schemas.setdefault(name, Schemas())
        known = {data: number for number, data in schemas.versions.items()}
        data = f"schema {next(self._numbers)}"
        if known and self._dice.random() < 0.3:
            data = self._dice.choice([*known])
        may = not known or self.book.holds("schema_compatibility", name)[0] == STRATEGIES[0]
        wanted = known.get(data, schemas.next)
        if may and data not in known:
            schemas.versions[wanted] = data
            schemas.next += 1
        path = f"schemas/{self.namespace}/{name}/schema"
        refused = () if may or data in known else (409,)
        answer = self._ask("POST", path, after, {"type": "EXTERNAL", "schema": data},
                           refusals=refused)  # fmt: skip
        if refused:
            if answer.status != 409:
                raise Wrong(f"{path}: {answer}, though no schema may follow")
        elif json.loads(answer.body)["version"]["version"] != wanted:
            raise Wrong(f"{path}: {answer}, expected {wanted}")
        self._count("register")

    def _forget_schema(self) -> None:
        name, after = self._family(), self.book.copy()
        if name in after.schemas and after.schemas[name].versions:
            after.schemas[name] = Schemas(after.schemas[name].next + 1)
            self._ask("DELETE", f"schemas/{self.namespace}/{name}/schema", after)
            self._count("forget schema")
