"""Random histories of names against a model that knows only dictionaries."""

from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import examples
from fakes.named_worlds import NamedWorld, named
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.placement.bundles import Bundles
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import Unavailable

SPACES = ("here/one", "here/two")
LOCALS = ("a", "b", "a-partition-1", "c-RETRY")
LIMIT = 6

spaces = st.sampled_from(SPACES)
locals_ = st.sampled_from(LOCALS)
counts = st.integers(1, 4)


class Names(RuleBasedStateMachine):
    """`topics`: number of partitions by name, 0 for plain topics; `subs`: by name."""

    def __init__(self) -> None:
        super().__init__()
        self.world = NamedWorld(allow_auto_namespace_creation=False, max_topics_per_namespace=LIMIT)
        self.namespaces: set[str] = set()
        self.topics: dict[TopicName, int] = {}
        self.subs: dict[TopicName, set[str]] = {}

    # The model ----------------------------------------------------------------------------

    def shown(self, namespace: str) -> list[str]:
        found: list[TopicName] = []
        for name, partitions in self.topics.items():
            if name.namespace_name == namespace:
                found += [name.with_partition(i) for i in range(partitions)] or [name]
        return sorted(map(str, found))

    def room(self, namespace: str, topics: int) -> bool:
        return len(self.shown(namespace)) + topics <= LIMIT

    def usable(self, name: TopicName) -> bool:
        """Whether there is something to use under exactly this name."""
        if name.partition >= 0:
            return name.partition < self.topics.get(name.base, 0)
        return self.topics.get(name) == 0

    def tried(self, work: Any, allowed: bool) -> None:
        try:
            self.world.do(work)
            succeeded = True
        except BrokerError:
            succeeded = False
        assert succeeded == allowed

    def gone(self, namespace: str) -> None:
        self.namespaces.discard(namespace)
        for names in (self.topics, self.subs):
            for name in [name for name in names if name.namespace_name == namespace]:
                del names[name]

    # The steps ------------------------------------------------------------------------------

    @rule(namespace=spaces)
    def create_namespace(self, namespace: str) -> None:
        self.world.do(self.world.directory.tenants.ensure("here"))
        new = Namespace(Bundles.even(2), {"its": namespace})
        work = self.world.directory.namespaces.create(NamespaceName.parse(namespace), new)
        self.tried(work, namespace not in self.namespaces)
        self.namespaces.add(namespace)

    @rule(namespace=spaces, force=st.booleans())
    def delete_namespace(self, namespace: str, force: bool) -> None:
        there = namespace in self.namespaces
        allowed = there and (force or not self.shown(namespace))
        self.tried(self.world.directory.deletion.namespace(namespace, force), allowed)
        if allowed:
            self.gone(namespace)

    @rule(namespace=spaces, local=locals_)
    def create(self, namespace: str, local: str) -> None:
        name = named(local, namespace)
        allowed = (
            namespace in self.namespaces
            and name not in self.topics
            and name.partition < 0
            and self.room(namespace, 1)
        )
        self.tried(self.world.directory.creation.plain(name, {}), allowed)
        if allowed:
            self.topics[name] = 0

    @rule(namespace=spaces, local=st.sampled_from(("a", "b")), partitions=counts)
    def create_partitioned(self, namespace: str, local: str, partitions: int) -> None:
        name = named(local, namespace)
        allowed = (
            namespace in self.namespaces
            and name not in self.topics
            and self.room(namespace, partitions)
        )
        work = self.world.directory.creation.partitioned(name, Partitioned(partitions))
        self.tried(work, allowed)
        if allowed:
            self.topics[name] = partitions

    @rule(namespace=spaces, local=st.sampled_from(("a", "b")), partitions=counts)
    def grow(self, namespace: str, local: str, partitions: int) -> None:
        name = named(local, namespace)
        present = self.topics.get(name, 0)
        allowed = present > 0 and self.room(namespace, max(partitions - present, 0))
        self.tried(self.world.directory.creation.grow(name, partitions), allowed)
        if allowed:
            first = self.subs.get(name.with_partition(0), set())
            for index in range(present, partitions):
                self.subs[name.with_partition(index)] = set(first)
            self.topics[name] = max(partitions, present)

    @rule(namespace=spaces, local=locals_, subscription=st.sampled_from("xy"))
    def use(self, namespace: str, local: str, subscription: str) -> None:
        """A consumer comes and goes; where nothing is there yet it makes a plain topic."""
        name = named(local, namespace)
        there = namespace in self.namespaces and self.usable(name)
        made = (
            namespace in self.namespaces
            and name not in self.topics
            and name.partition < 0
            and self.room(namespace, 1)
        )

        async def subscribing() -> None:
            await self.world.broker.topic(name, create=True)

        self.tried(subscribing(), there or made)
        if there or made:
            self.world.subscribe(name, subscription)
            self.subs.setdefault(name, set()).add(subscription)
            if made:
                self.topics[name] = 0

    @rule(namespace=spaces, local=locals_, connected=st.booleans(), force=st.booleans())
    def delete(self, namespace: str, local: str, connected: bool, force: bool) -> None:
        name = named(local, namespace)
        there = self.usable(name)
        if there and connected:
            _, producer = self.world.producer(name)
        allowed = there and (force or not connected)
        self.tried(self.world.directory.deletion.topics.delete(name, force), allowed)
        if there and connected and not allowed:
            producer.close()
        if allowed:
            self.subs.pop(name, None)
            if name.partition < 0:
                del self.topics[name]

    @rule(namespace=spaces, local=st.sampled_from(("a", "b")))
    def delete_partitioned(self, namespace: str, local: str) -> None:
        name = named(local, namespace)
        allowed = self.topics.get(name, 0) > 0
        self.tried(self.world.directory.deletion.topics.delete_partitioned(name, False), allowed)
        if allowed:
            for index in range(self.topics.pop(name)):
                self.subs.pop(name.with_partition(index), None)

    @rule(namespace=spaces, local=locals_)
    def unload(self, namespace: str, local: str) -> None:
        self.world.do(self.world.directory.opening.unload(named(local, namespace)))

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(namespace=spaces, writes=st.integers(0, 12))
    def lose_power_while_a_namespace_goes(self, namespace: str, writes: int) -> None:
        self.world.writes, self.world.writes_left = 0, writes
        with suppress(Unavailable, BrokerError):  # whether it was deleted is known after the start
            self.world.do(self.world.directory.deletion.namespace(namespace, force=True))
        self.world.start()
        if not self.world.do(self.world.directory.namespaces.has(namespace)):
            self.gone(namespace)

    # What must be so ------------------------------------------------------------------------

    @invariant()
    def the_same_is_there(self) -> None:
        directory, do = self.world.directory, self.world.do
        assert set(do(directory.namespaces.of_tenant("here"))) == self.namespaces
        for namespace in self.namespaces:
            assert do(directory.names(namespace, True, True)) == self.shown(namespace)
            parted = do(directory.catalogue.partitioned_topics(namespace, "persistent"))
            assert {name: do(directory.catalogue.partitions(name)) for name in parted} == {
                name: partitions
                for name, partitions in self.topics.items()
                if partitions and name.namespace_name == namespace
            }

    @invariant()
    def loaded_topics_have_their_subscriptions(self) -> None:
        for topic in self.world.broker.topics:
            assert set(topic.subscriptions) == self.subs.get(topic.name, set())

    def teardown(self) -> None:
        """Everything can be deleted, and nothing is left then."""
        for namespace in sorted(self.namespaces):
            self.world.do(self.world.directory.deletion.namespace(namespace, force=True))
        left = [key for key in self.world.stored("/") if "/here/" in key]
        assert left == [] and self.world.store.ids() == set()


TestNames = Names.TestCase
TestNames.settings = settings(max_examples=examples(60), stateful_step_count=25)
