"""The official Java client: the scenarios in java/ against the real daemon."""

from collections.abc import Iterator

import pytest

from clients import builds
from clients.java_driver import JavaDriver, scenarios
from clients.stage import Stage

# The first test builds the program, from sources and downloads: minutes on a fresh machine.
pytestmark = [pytest.mark.daemon, pytest.mark.timeout(1200)]

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

    @pytest.mark.parametrize("scenario", scenarios())
    def test_java(java: JavaDriver, stage: Stage, scenario: str) -> None:
        failure = java.play(scenario, stage)
        if failure is not None:
            pytest.fail(f"{scenario}: {failure}\nlog: {java.log_path}", pytrace=False)
