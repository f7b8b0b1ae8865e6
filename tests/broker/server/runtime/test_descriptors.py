"""The limit of open files is raised as far as the system allows."""

import resource

import pytest

from magnetar_broker.server.runtime.descriptors import MACOS_OPEN_MAX, raise_limit

INFINITE = (1 << 63) - 1
"""The value of RLIM_INFINITY on macOS."""


class Limits:
    """The module `resource` of a system that refuses soft limits above `most`."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, refusal: Exception
    ) -> None:
        self.limits = (soft, hard)
        self._most = most
        self._refusal = refusal
        monkeypatch.setattr(resource, "getrlimit", self._get)
        monkeypatch.setattr(resource, "setrlimit", self._set)

    def _get(self, kind: int) -> tuple[int, int]:
        assert kind == resource.RLIMIT_NOFILE
        return self.limits

    def _set(self, kind: int, limits: tuple[int, int]) -> None:
        assert kind == resource.RLIMIT_NOFILE
        if limits[0] > self._most:
            raise self._refusal
        self.limits = limits


@pytest.mark.parametrize("refusal", [ValueError("current limit exceeds"), OSError(22, "Invalid")])
@pytest.mark.parametrize(
    ("soft", "hard", "most", "raised"),
    [
        (1024, 4096, 4096, 4096),
        (256, INFINITE, MACOS_OPEN_MAX, MACOS_OPEN_MAX),
        (20_000, INFINITE, 24_576, 20_000),
        (256, INFINITE, 300, 256),
    ],
    ids=["linux", "macos", "macos-raised-before", "refused"],
)
def test_the_highest_accepted_limit_is_set(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, raised: int,
    refusal: Exception,
) -> None:  # fmt: skip
    limits = Limits(monkeypatch, soft, hard, most, refusal)
    raise_limit()
    assert limits.limits == (raised, hard)
