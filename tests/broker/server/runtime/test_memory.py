"""Limits that follow from the memory of the machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.limits.worker_share import settings_of_worker
from magnetar_broker.server.runtime.memory import memory_bytes, with_buffer_sizes


@pytest.mark.parametrize(
    ("memory_mb", "size_mb"), [(100, 64), (1024, 64), (8192, 512), (1 << 20, 1024)]
)
def test_a_part_of_the_memory_within_bounds(memory_mb: int, size_mb: int) -> None:
    settings = with_buffer_sizes(Settings(), memory_mb << 20)
    assert settings.magnetar_receive_buffer_size_in_mb == size_mb
    assert settings.magnetar_send_buffer_size_in_mb == size_mb
    share = settings_of_worker(settings, 4)
    assert share.magnetar_receive_buffer_size_in_mb == size_mb // 4
    assert share.magnetar_send_buffer_size_in_mb == size_mb // 4


def test_a_number_stays() -> None:
    settings = replace(
        Settings(), magnetar_receive_buffer_size_in_mb=5, magnetar_send_buffer_size_in_mb=0
    )
    assert with_buffer_sizes(settings) == settings
    assert settings_of_worker(Settings(), 4).magnetar_receive_buffer_size_in_mb == "auto"


def test_a_container_has_less_than_the_machine(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    machine = memory_bytes([limit])
    assert machine > 1 << 20
    limit.write_text("max\n")
    assert memory_bytes([limit]) == machine
    limit.write_text("1048576\n")
    assert memory_bytes([limit]) == 1 << 20
