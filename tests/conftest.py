"""Fixtures, options and Hypothesis profiles for all tests."""

import ast
import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import effort
from running_broker import RunningBroker

OF_ONE_WORKER = (
    "bench/test_spark_bench.py",
    "clients/test_java.py",
    "clients/test_pulsar_admin.py",
    "clients/test_go.py",
    "spark/test_spark_end_to_end.py",
    "spark/test_spark_exactly_once.py",
    "spark/test_spark_pages.py",
)
"""Test files that build a program or start a JVM: once is enough, and two builds would collide."""
DAEMON_FIXTURES = frozenset({"broker", "make_broker"})


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a daemon by fixture is marked so; other tests mark themselves."""
    for item in items:
        if not DAEMON_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.daemon)


class Distribution(LoadScopeScheduling):
    """Each worker takes the next test as it becomes free; files of one worker are taken whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.endswith(OF_ONE_WORKER) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return Distribution(config, log)


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


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """A broker that is started in this process restricts what is created, for all later tests."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
