"""The official Java client: the scenarios in java/ against the real daemon."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clients import builds, secured, snippets
from clients.java_driver import JavaDriver, scenarios
from clients.secured import Secured, SecuredStage
from clients.stage import Stage
from running_broker import RunningBroker

OF_SEVERAL_WORKERS = ("Admin", "Transactions")
"""Scenarios that are played on several workers as well."""

MISSING = builds.missing("java", "javac", "mvn")

if MISSING:

    def test_java_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
        with capsys.disabled():
            print(f"\n{' and '.join(MISSING)} not installed: {len(scenarios())} checks not run")

else:

    @pytest.fixture(scope="module")
    def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
        driver = JavaDriver(tmp_path_factory.mktemp("java") / "log")
        yield driver
        driver.close()

    @pytest.mark.parametrize("scenario", secured.without(scenarios()))
    def test_java(java: JavaDriver, stage: Stage, scenario: str) -> None:
        failure = java.play(scenario, stage)
        if failure is not None:
            pytest.fail(f"{scenario}: {failure}\nlog: {java.log_path}", pytrace=False)

    def test_three_workers(java: JavaDriver, make_broker: Callable[..., RunningBroker]) -> None:
        if RunningBroker.workers > 1:
            return  # `test_java` has done it
        broker = make_broker(magnetarWorkers="3")
        failures = []
        for scenario in scenarios():
            if scenario.startswith(OF_SEVERAL_WORKERS):
                topic = f"persistent://public/default/{scenario.replace('.', '-')}"
                failure = java.play(scenario, Stage(broker, make_broker, topic))
                if failure is not None:
                    failures.append(f"{scenario}: {failure}")
        if failures:
            pytest.fail("\n".join(failures) + f"\nlog: {java.log_path}", pytrace=False)

    @pytest.mark.parametrize("scenario", secured.only(scenarios()))
    def test_secured(
        java: JavaDriver,
        secured_broker: tuple[RunningBroker, Secured],
        make_broker: Callable[..., RunningBroker],
        topic: str,
        scenario: str,
    ) -> None:
        broker, credentials = secured_broker
        failure = java.play(scenario, SecuredStage(broker, make_broker, topic, credentials))
        if failure is not None:
            pytest.fail(f"{scenario}: {failure}\nlog: {java.log_path}", pytrace=False)

    def test_what_users_are_told_compiles_and_runs(java: JavaDriver, tmp_path: Path) -> None:
        with snippets.secure_broker(tmp_path) as prepared:
            program = tmp_path / "Printed.java"
            program.write_text(
                snippets.JAVA.format(
                    printed=prepared.program("Java"), documented=snippets.documented("Java")
                )
            )
            snippets.prints_here(("java", "-cp", java.libraries, program), tmp_path)
