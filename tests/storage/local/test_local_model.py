"""Random histories with crashes, held against a model."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.faulty_disk import FaultyDisk, seeded
from fakes.local_store import Machine

STEP = st.one_of(
    st.tuples(st.just("create")),
    st.tuples(
        st.just("append"),
        st.integers(0, 4),
        st.lists(st.tuples(st.binary(max_size=120), st.integers(1, 9)), min_size=1, max_size=6),
    ),
    st.tuples(st.just("pump")),
    st.tuples(st.just("seal"), st.integers(0, 4)),
    st.tuples(st.just("recover"), st.integers(0, 4)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash"), st.integers(0, 1 << 30)),
)


class Model:
    """Applies steps to a machine; what cannot be done at present is passed over."""

    def __init__(self) -> None:
        self.machine = Machine(FaultyDisk())
        self.machine.open()

    def open_segment(self, number: int) -> int | None:
        truths = self.machine.truths
        usable = [s for s in self.machine.writers if not truths[s].sealed and not truths[s].deleted]
        return usable[number % len(usable)] if usable else None

    def create(self) -> None:
        self.machine.create()

    def append(self, number: int, entries: list[tuple[bytes, int]]) -> None:
        segment = self.open_segment(number)
        if segment is not None:
            self.machine.append(segment, [p for p, _ in entries], [c for _, c in entries])

    def pump(self) -> None:
        self.machine.pump()

    def seal(self, number: int) -> None:
        segment = self.open_segment(number)
        if segment is not None:
            self.machine.seal(segment)

    def recover(self, number: int) -> None:
        segment = self.open_segment(number)
        if segment is not None:
            self.machine.do(self.machine.store.recover(segment))
            self.machine.truths[segment].sealed = True

    def delete(self, number: int) -> None:
        alive = [s for s, truth in self.machine.truths.items() if not truth.deleted]
        if alive:
            self.machine.delete(alive[number % len(alive)])

    def checkpoint(self) -> None:
        self.machine.do(self.machine.store.checkpoint())

    def restart(self) -> None:
        self.machine.close()
        self.machine.open()
        self.machine.check()

    def crash(self, seed: int) -> None:
        """The middle of the road between nothing and everything surviving."""
        self.machine.disk.crash(seeded(seed))
        self.machine.open()
        assert not [found for found in self.machine.store.findings if found.data_lost]
        self.machine.check()


@settings(max_examples=examples(250), suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, max_size=40), st.integers(0, 1 << 30))
def test_any_history_survives_any_crash(steps: list[tuple[object, ...]], seed: int) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, str(name))(*arguments)
    model.crash(seed)
    model.restart()
    model.machine.check_still_works()
