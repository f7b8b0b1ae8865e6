"""Fixtures, options and Hypothesis profiles for all tests."""

import ast
import datetime
import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, wraps
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

import effort
import marks
from running_broker import RunningBroker

ENSURE_JAVA = Path(__file__).parents[1] / "scripts" / "ensure-java"
STARTS_OF_PROCESSES = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})
"""Audit events of CPython."""
LEFT_OUT = pytest.StashKey[Counter[str]]()
"""The number of deselected tests by the mark that explains it best."""
COLLECTED_AFTER = 3_000, 10, 20
"""The thresholds of the garbage collector. With more objects it would take longer again, because
the first ones would have left the caches of the processor."""
_core_test: str | None = None
"""The id of the test that runs now and must start no process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--effort",
        choices=tuple(effort.PARTS),
        default="default",
        help="how many examples, seeds and kills the random tests try (tests/effort.py)",
    )
    parser.addoption(
        "--cycles",
        type=int,
        help="how many times tests/crash/test_kill9.py kills the broker (default: by --effort)",
    )
    parser.addoption(
        "--broker-workers",
        type=int,
        default=RunningBroker.workers,
        help="magnetarWorkers of every broker whose test does not set it",
    )
    parser.addoption(
        "--broker-metadata",
        choices=("etcd", "postgres"),
        help="keep the data of all brokers in versitygw, and their metadata in such a server",
    )


def hold_collector_while_parsing() -> None:
    """Let no garbage collection run inside `ast.parse`, for the rest of this process.

    On CPython 3.11 `ast.parse` fails with "AST constructor recursion depth mismatch" if it is
    called while another call runs (python/cpython#106905).  The collector can cause that: it may
    run inside a call and finalize what another test left, and reporting an exception of the
    finalizer formats a traceback, which parses.  Hypothesis, mypy and the mutants parse.
    """
    parse = ast.parse

    @wraps(parse)
    def parse_uncollected(*args: object, **kwargs: object) -> ast.AST:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return parse(*args, **kwargs)  # type: ignore[call-overload, no-any-return]
        finally:
            if was_enabled:
                gc.enable()

    ast.parse = parse_uncollected  # type: ignore[assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before Hypothesis loads the profile of --hypothesis-profile, which wins."""
    if sys.version_info < (3, 12):
        hold_collector_while_parsing()
    sys.addaudithook(refuse_processes_of_core_tests)
    config.stash[LEFT_OUT] = Counter[str]()
    for name, meaning in marks.MEANINGS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    effort.choose(config.getoption("effort"))
    RunningBroker.workers = config.getoption("broker_workers")
    # No deadline: machines differ, and so does their load. The blob printed with a failure
    # repeats it on another machine: @reproduce_failure(...), as Hypothesis words it.
    settings.register_profile(
        "untimed", deadline=None, print_blob=True, max_examples=effort.examples(100)
    )
    settings.load_profile("untimed")
    # For the mutants: what matters is that a test fails, not the smallest input that fails it.
    settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.reuse, Phase.generate])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the garbage collector skip what stays for the whole run, modules and tests, and run
    rarely: with its defaults it would take a fifth of the time, both here and in the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test as tests/marks.py says.

    Of several processes, the first to be free takes the test that takes longest.
    """
    today = datetime.date.today()
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        names = marks.marks_of(path_of(item.nodeid), fixtures, today)
        for name in names:
            item.add_marker(name)
        if "jvm" in names and (reason := why_no_java()):
            item.add_marker(pytest.mark.skip(reason=reason))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: marks.LONGEST_FIRST.index(marks.best_of(marks_on(item))))


def marks_on(item: pytest.Item) -> set[str]:
    """Return the names of the marks of a test; its keywords have the names of its folders too."""
    return {mark.name for mark in item.iter_markers()}


def path_of(nodeid: str) -> str:
    """Return the id of a test relative to tests/."""
    return nodeid.removeprefix("tests/")


@cache
def why_no_java() -> str:
    """Return why no JVM can be started and what to do, or "" if one can."""
    checked = subprocess.run([ENSURE_JAVA, "--check"], check=False, capture_output=True, text=True)
    return checked.stderr.strip() if checked.returncode else ""


def refuse_processes_of_core_tests(event: str, _: tuple[object, ...]) -> None:
    if event in STARTS_OF_PROCESSES and _core_test is not None:
        raise RuntimeError(
            f"{event} in {_core_test}, a test of the core: say in tests/marks.py what it needs"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _core_test  # noqa: PLW0603  (an audit hook has no other way to know the test)
    _core_test = item.nodeid if "core" in marks_on(item) else None
    umask = os.umask(0o022)
    os.umask(umask)
    try:
        return (yield)
    finally:
        # A broker that was started in this process has restricted what is created.
        os.umask(umask)
        _core_test = None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.CollectReport | pytest.TestReport,
) -> Generator[None, dict[str, object] | None, dict[str, object] | None]:
    """Leave out what nothing reads of a test that passed: the process of the test sends less."""
    data = yield
    if data is not None and report.passed:
        data["keywords"] = {}
    return data


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[LEFT_OUT][marks.best_of(marks_on(item))] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        left_out = session.config.stash[LEFT_OUT]
        session.config.workeroutput["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Take over what a process of pytest-xdist left out; all of them leave out the same tests."""
    left_out: dict[str, int] = getattr(node, "workeroutput", {}).get("left_out", {})
    counted: Counter[str] = Counter(left_out)
    node.config.stash[LEFT_OUT] = counted


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say in the last line what did not run."""
    left_out = config.stash[LEFT_OUT]
    if left_out and not hasattr(config, "workeroutput"):
        parts = ", ".join(f"{count:,} {name}" for name, count in left_out.most_common())
        print(f"Left out {left_out.total():,} tests ({parts}): `make test-all` runs them.")


class Collected(list[str]):
    """The ids of the collected tests, whose positions are found without a search."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self._positions = {nodeid: position for position, nodeid in enumerate(ids)}

    def index(self, nodeid: str, *_: object) -> int:
        return self._positions[nodeid]


class Distribution(LoadScopeScheduling):
    """Each worker takes the next test as it becomes free; files of one worker are taken whole."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Store the tests of a worker: each is looked up by its id when it is assigned."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Collected(collection)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if marks.is_taken_whole(path_of(file)) else nodeid

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget what is complete, too: xdist would count it again after every further test."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        unit = self._split_scope(self.registered_collections[node][item_index])
        if all(units[unit].values()):
            del units[unit]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return Distribution(config, log)


@pytest.fixture(scope="session", autouse=True)
def stores_of_brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Run the stores of --broker-metadata; every data directory stands for data of its own."""
    if (engine := request.config.getoption("broker_metadata")) is None:
        yield
        return
    from remote_data import running_stores

    with running_stores(tmp_path_factory.mktemp("stores"), engine) as stores:
        RunningBroker.stores = stores
        yield


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One real daemon for the whole run; tests use topics of their own and leave it running."""
    data = tmp_path_factory.mktemp("broker") / "data"
    running = RunningBroker(
        data,
        activeConsumerFailoverDelayTimeMillis="0",
        magnetarAllowAutoNamespaceCreation="true",  # tests use namespaces of their own
    ).start()
    yield running
    running.close()


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Start daemons for one test, each with its own settings, to be stopped and killed at will."""
    made: list[RunningBroker] = []

    def make(conf: Path | None = None, **settings: str) -> RunningBroker:
        made.append(RunningBroker(tmp_path / f"data{len(made)}", **settings))
        made[-1].conf = conf
        return made[-1].start()

    yield make
    for running in made:
        running.close()
