"""The official Go client: the tests in go/ against the real daemon."""

import pytest

from clients import builds
from clients.go_driver import GoDriver, scenarios
from clients.stage import Stage

# The first test builds the program, from sources and downloads: minutes on a fresh machine.
pytestmark = [pytest.mark.daemon, pytest.mark.timeout(1200)]

MISSING = builds.missing("go")

if MISSING:

    def test_go_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
        with capsys.disabled():
            print(f"\ngo not installed: {len(scenarios())} checks not run")

else:

    @pytest.fixture(scope="module")
    def go() -> GoDriver:
        return GoDriver()

    @pytest.mark.parametrize("scenario", scenarios())
    def test_go(go: GoDriver, stage: Stage, scenario: str) -> None:
        failure = go.play(scenario, stage)
        if failure is not None:
            pytest.fail(f"{scenario}: {failure}", pytrace=False)
