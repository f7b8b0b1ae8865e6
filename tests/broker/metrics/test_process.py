"""Metrics of the process, with and without /proc."""

from pathlib import Path

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
