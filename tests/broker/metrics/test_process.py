"""Metrics of the process, with and without /proc."""

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar_broker.metrics.process import process_part


@pytest.fixture(autouse=True)
def _without_collections() -> Iterator[None]:
    """Keep what earlier tests left from being freed between two looks of a test."""
    gc.disable()
    yield
    gc.enable()


def samples(proc: str = "/proc") -> dict[str, float]:
    """Return the values of the page's part; of several generations the last one."""
    page = process_part("c", proc).decode()
    families = list(text_string_to_metric_families(page))
    assert all(one.labels["cluster"] == "c" for family in families for one in family.samples)
    return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_figures_are_those_of_the_system() -> None:
    before = time.time()
    found = samples()
    own = psutil.Process()
    assert found["process_start_time_seconds"] == pytest.approx(own.create_time(), abs=1.1)
    memory = own.memory_info()
    assert found["process_virtual_memory_bytes"] == pytest.approx(memory.vms, rel=0.1)
    assert found["process_resident_memory_bytes"] == pytest.approx(memory.rss, rel=0.1)
    assert 0 < found["process_cpu_seconds_total"] <= sum(os.times()[:2])
    assert found["process_start_time_seconds"] < before
    assert found["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found["python_info"] == 1
    assert 0 <= found["python_gc_collections_total"] <= gc.get_stats()[-1]["collections"]


def test_without_proc_the_portable_metrics_have_the_same_names(tmp_path: Path) -> None:
    linux, portable = samples(), samples(str(tmp_path))
    assert set(linux) - set(portable) == {
        "process_resident_memory_bytes", "process_virtual_memory_bytes",
        "process_start_time_seconds",
    }  # fmt: skip
    assert set(portable) <= set(linux)
    assert portable["process_max_fds"] == linux["process_max_fds"]
    assert portable["process_cpu_seconds_total"] > 0


@pytest.mark.parametrize("proc", ["/proc", "/none"])
def test_open_files_are_counted_with_and_without_proc(proc: str, tmp_path: Path) -> None:
    before = samples(proc)["process_open_fds"]
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert samples(proc)["process_open_fds"] == before + 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc tells of its heap")
def test_what_is_freed_in_the_heap_is_free_and_not_used() -> None:
    # Small enough to come from the heap; every other one stays, so that none is given back.
    size, count = 50_000, 200
    before = samples()
    kept = [bytes(size) for _ in range(count)]
    full = samples()
    del kept[::2]
    half = samples()
    grown = full["process_heap_used_bytes"] - before["process_heap_used_bytes"]
    assert grown >= size * count
    freed = size * count // 2
    slack = freed // 10  # other objects come and go
    assert full["process_heap_used_bytes"] - half["process_heap_used_bytes"] > freed - slack
    assert half["process_heap_free_bytes"] - full["process_heap_free_bytes"] > freed - slack
