"""Requests for snapshots where the storage makes none."""

import pytest

from fakes.rest_world import BROKERS, World


@pytest.mark.parametrize("line", ["GET {}/snapshots", "GET {}/snapshots/x", "POST {}/snapshots/x"])
def test_a_storage_without_snapshots_refuses_them_with_the_reason(line: str) -> None:
    answer = World(1).ask(line.format(BROKERS))
    assert answer.status == 501
    assert b"makes no snapshots" in answer.body
