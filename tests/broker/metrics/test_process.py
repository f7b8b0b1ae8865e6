"""Metrics of the process, with and without /proc."""

import platform
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from magnetar_broker.metrics.process import PROC, process_registry


def samples(registry: CollectorRegistry) -> dict[str, float]:
    return {sample.name: sample.value for family in registry.collect() for sample in family.samples}


def test_without_proc_the_portable_metrics_have_the_same_names(tmp_path: Path) -> None:
    linux, portable = samples(process_registry(PROC)), samples(process_registry(str(tmp_path)))
    assert set(linux) - set(portable) == {
        "process_resident_memory_bytes", "process_virtual_memory_bytes",
        "process_start_time_seconds",
    }  # fmt: skip
    assert set(portable) <= set(linux)
    assert portable["process_max_fds"] == linux["process_max_fds"]
    assert portable["process_cpu_seconds_total"] > 0


def test_open_files_are_counted_without_proc(tmp_path: Path) -> None:
    registry = process_registry(str(tmp_path))
    before = samples(registry)["process_open_fds"]
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert samples(registry)["process_open_fds"] == before + 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc tells of its heap")
def test_what_is_freed_in_the_heap_is_free_and_not_used() -> None:
    registry = process_registry()
    # Small enough to come from the heap; every other one stays, so that none is given back.
    size, count = 50_000, 200
    before = samples(registry)
    kept = [bytes(size) for _ in range(count)]
    full = samples(registry)
    del kept[::2]
    half = samples(registry)
    grown = full["process_heap_used_bytes"] - before["process_heap_used_bytes"]
    assert grown >= size * count
    freed = size * count // 2
    slack = freed // 10  # other objects come and go
    assert full["process_heap_used_bytes"] - half["process_heap_used_bytes"] > freed - slack
    assert half["process_heap_free_bytes"] - full["process_heap_free_bytes"] > freed - slack
