"""The official Go client: the tests in go/ against the real daemon."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import builds, secured, snippets
from clients.go_driver import GoDriver, scenarios
from clients.secured import Secured, SecuredStage
from clients.stage import Stage
from running_broker import RunningBroker

OF_SEVERAL_WORKERS = ("TestAdmin", "TestTransaction")
"""Scenarios that are played on several workers as well."""

MISSING = builds.missing("go")

if MISSING:

    def test_go_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
        with capsys.disabled():
            print(f"\ngo not installed: {len(scenarios())} checks not run")

else:

    @pytest.fixture(scope="module")
    def go() -> GoDriver:
        return GoDriver()

    @pytest.mark.parametrize("scenario", secured.without(scenarios()))
    def test_go(go: GoDriver, stage: Stage, scenario: str) -> None:
        failure = go.play(scenario, stage)
        if failure is not None:
            pytest.fail(f"{scenario}: {failure}", pytrace=False)

    def test_three_workers(go: GoDriver, make_broker: Callable[..., RunningBroker]) -> None:
        if RunningBroker.workers > 1:
            return  # `test_go` has done it
        broker = make_broker(magnetarWorkers="3")
        failures = []
        for scenario in scenarios():
            if scenario.startswith(OF_SEVERAL_WORKERS):
                topic = f"persistent://public/default/{scenario}"
                failure = go.play(scenario, Stage(broker, make_broker, topic))
                if failure is not None:
                    failures.append(f"{scenario}: {failure}")
        if failures:
            pytest.fail("\n".join(failures), pytrace=False)

    @pytest.mark.parametrize("scenario", secured.only(scenarios()))
    def test_secured(
        go: GoDriver,
        secured_broker: tuple[RunningBroker, Secured],
        make_broker: Callable[..., RunningBroker],
        topic: str,
        scenario: str,
    ) -> None:
        broker, credentials = secured_broker
        failure = go.play(scenario, SecuredStage(broker, make_broker, topic, credentials))
        if failure is not None:
            pytest.fail(f"{scenario}: {failure}", pytrace=False)

    def test_what_users_are_told_compiles_and_runs(tmp_path: Path) -> None:
        for name in ("go.mod", "go.sum"):
            shutil.copy(builds.HERE / "go" / name, tmp_path)
        with snippets.secure_broker(tmp_path) as prepared:
            program = tmp_path / "printed.go"
            program.write_text(
                snippets.GO.format(
                    printed=prepared.program("Go"), documented=snippets.documented("Go")
                )
            )
            snippets.prints_here(("go", "run", program.name), tmp_path)
