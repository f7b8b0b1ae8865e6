"""Random histories of several workers with crashes and restarts, held against a model."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.faulty_disk import FaultyDisk, seeded
from fakes.worker_stores import WorkerBooks

MOST_WORKERS = 3
WORKER = st.integers(0, MOST_WORKERS - 1)
STEP = st.one_of(
    st.tuples(st.just("create")),
    st.tuples(
        st.just("append"),
        st.integers(0, 4),
        st.lists(st.tuples(st.binary(max_size=120), st.integers(1, 9)), min_size=1, max_size=6),
    ),
    st.tuples(st.just("pump")),
    st.tuples(st.just("turn_to"), WORKER),
    st.tuples(st.just("move"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("kill"), WORKER),
    st.tuples(st.just("restart"), st.integers(1, MOST_WORKERS)),
    st.tuples(st.just("crash"), st.integers(1, MOST_WORKERS), st.integers(0, 1 << 30)),
)


class Model:
    """Applies steps to the workers; what cannot be done at present is passed over."""

    def __init__(self) -> None:
        self.books = WorkerBooks(FaultyDisk(), 2)

    def create(self) -> None:
        self.books.create()

    def append(self, number: int, entries: list[tuple[bytes, int]]) -> None:
        truths = self.books.truths
        usable = [s for s in self.books.writers if not truths[s].sealed and not truths[s].deleted]
        if usable:
            segment = usable[number % len(usable)]
            self.books.append(segment, [p for p, _ in entries], [c for _, c in entries])

    def pump(self) -> None:
        self.books.pump()

    def turn_to(self, worker: int) -> None:
        self.books.turn_to(worker % self.books.workers.count)

    def move(self, number: int) -> None:
        """A topic comes to the present worker, which reads what it has."""
        segment = self.existing(number)
        if segment is not None and not self.is_out_of_reach(segment):
            self.books.do(self.books.store.recover(segment))
            self.books.truths[segment].sealed = True
            self.books.check_segment(segment)

    def delete(self, number: int) -> None:
        segment = self.existing(number)
        if segment is not None and not self.is_out_of_reach(segment):
            self.books.delete(segment)

    def existing(self, number: int) -> int | None:
        alive = [s for s, truth in self.books.truths.items() if not truth.deleted]
        return alive[number % len(alive)] if alive else None

    def is_out_of_reach(self, segment: int) -> bool:
        """Whether the worker that has its directory open was killed."""
        return segment % 256 % self.books.workers.count not in self.books.workers.stores

    def kill(self, worker: int) -> None:
        workers = self.books.workers
        if worker not in workers.stores or len(workers.stores) == 1:
            return
        workers.kill(worker)
        for segment in [s for s in self.books.writers if s % 256 % workers.count == worker]:
            del self.books.writers[segment]
        self.books.turn_to(next(iter(workers.stores)))

    def restart(self, count: int) -> None:
        self.books.close()
        self.books.start(count)
        self.books.check()

    def crash(self, count: int, seed: int) -> None:
        """The middle of the road between nothing and everything surviving."""
        self.books.disk.crash(seeded(seed))
        self.books.start(count)
        found = [one for store in self.books.workers.stores.values() for one in store.findings]
        assert not [finding for finding in found if finding.data_lost]
        self.books.check()


@settings(max_examples=examples(250), suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, max_size=40), st.integers(1, MOST_WORKERS), st.integers(0, 1 << 30))
def test_any_history_of_workers_survives_any_crash(
    steps: list[tuple[object, ...]], count: int, seed: int
) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, str(name))(*arguments)
    model.crash(count, seed)
    model.restart(count)
    for worker in range(count):
        model.turn_to(worker)
        model.books.check_still_works()
