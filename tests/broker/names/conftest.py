"""Has the tests of names run twice: in one process, and with the topics in another process."""

from collections.abc import Iterator

import pytest

from fakes.named_worlds import NamedWorld


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if hasattr(metafunc.module, NamedWorld.__name__):
        metafunc.fixturenames.append("is_divided")
        ids = ["one-process", "two-processes"]
        metafunc.parametrize("is_divided", [False, True], ids=ids, indirect=True, scope="module")


@pytest.fixture(scope="module")
def is_divided(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NamedWorld, "is_divided", request.param)
        yield
