"""A supervisor that restarts one worker after the other with a changed configuration."""

import signal

import pytest

from broker.server.supervision.supervising import Supervise, Supervised


def reload(supervised: Supervised) -> None:
    supervised.until(event="ready")
    supervised.process.send_signal(signal.SIGHUP)


def order(supervised: Supervised) -> list[tuple[str, str]]:
    """Return the events after the reload, each with the name of its worker."""
    kinds = ("drained", "stopped", "changed", "undrained")
    return [
        (found["event"], f"worker-{found['worker']}" if "worker" in found else found["name"])
        for found in supervised.events
        if found["event"] in kinds
    ]


def test_one_worker_after_another_is_drained_and_restarted(supervise: Supervise) -> None:
    supervised = supervise("+worker-0=serve_changed", "+worker-1=serve_changed")
    reload(supervised)
    supervised.until_logged("all workers have the changed configuration")
    assert order(supervised) == [
        (event, worker)
        for worker in ("worker-0", "worker-1")
        for event in ("drained", "stopped", "changed", "undrained")
    ]
    for number in (0, 1):
        supervised.until(event="met", name="controller", worker=number, peer_generation=2)
    supervised.until(event="met", name="worker-0", worker=1, peer_generation=2)
    assert "ERROR" not in supervised.log, "it is no failure"
    reloaded = supervised.until(event="reloaded", name="controller")
    assert reloaded["values"] == {"key": ["text", "source"]}
    assert supervised.stop() == 0
    assert supervised.named("started").count("controller") == 1


def test_an_unchanged_configuration_restarts_nothing(supervise: Supervise) -> None:
    supervised = supervise()
    reload(supervised)
    supervised.until(event="reload")
    assert supervised.stop() == 0
    assert len(supervised.named("started")) == 3


def test_each_signal_reads_the_configuration_once_more(supervise: Supervise) -> None:
    supervised = supervise("+worker-0=serve_changed")
    reload(supervised)
    supervised.until_logged("all workers have the changed configuration")
    supervised.events.clear()
    supervised.process.send_signal(signal.SIGHUP)
    supervised.until(event="reload")
    assert supervised.stop() == 0
    assert supervised.named("started") == [], "it was taken as done"


def test_a_worker_that_does_not_start_with_it_keeps_the_former_one(supervise: Supervise) -> None:
    supervised = supervise("+worker-0=fail", "+worker-1=serve_changed")
    reload(supervised)
    supervised.until(event="undrained", worker=0)
    assert "worker-0 cannot start with the changed configuration" in supervised.log
    assert "there is no room" in supervised.log
    assert supervised.stop() == 0
    assert supervised.named("changed") == []
    started = [found for found in supervised.events if found["event"] == "started"]
    assert [(one["name"], one["generation"]) for one in started if one["generation"] > 1] == [
        ("worker-0", 3)
    ]


def test_a_worker_that_ends_meanwhile_is_restarted_once(supervise: Supervise) -> None:
    supervised = supervise(
        "controller=late_to_drain", "+worker-0=serve_changed", "+worker-1=serve_changed"
    )
    reload(supervised)
    supervised.until(event="asked", worker=0)
    supervised.kill("worker-1")
    supervised.until(event="changed", name="worker-1")
    supervised.until(event="changed", name="worker-0")
    supervised.until(event="asked", worker=1)
    assert supervised.stop() == 0
    assert supervised.named("changed") == ["worker-1", "worker-0"]


def test_a_worker_that_does_not_stop_is_killed(supervise: Supervise) -> None:
    supervised = supervise(
        "worker-0=stubborn", "+worker-0=serve_changed", "+worker-1=serve", stop_seconds=60
    )
    reload(supervised)
    supervised.until(event="stopped", name="worker-0")
    supervised.leap(60)
    supervised.until_logged("all workers have the changed configuration")
    assert "worker-0 has not stopped within 60000 ms" in supervised.log
    assert supervised.named("changed") == ["worker-0"]
    assert supervised.stop() == 0


def test_a_stop_interrupts_it(supervise: Supervise) -> None:
    supervised = supervise("controller=late_to_drain", "+worker-0=serve_changed")
    reload(supervised)
    supervised.until(event="asked", worker=0)
    assert supervised.stop() == 0
    assert supervised.named("changed") == []


@pytest.mark.parametrize("behaviour", ["die_asked_to_drain", "die_asked_to_undrain"])
def test_it_goes_on_with_the_next_controller(supervise: Supervise, behaviour: str) -> None:
    """Each worker is restarted once, and the controller gets the settings in the end."""
    supervised = supervise(
        f"controller={behaviour}", "+worker-0=serve_changed", "+worker-1=serve_changed"
    )
    reload(supervised)
    supervised.until_logged("all workers have the changed configuration")
    supervised.until(event="reloaded", name="controller", generation=2)
    assert supervised.stop() == 0
    assert supervised.named("changed") == ["worker-0", "worker-1"]
    assert supervised.named("started").count("worker-0") == 2
    assert supervised.named("started").count("worker-1") == 2


def test_controllers_that_all_end_of_it_end_it(supervise: Supervise) -> None:
    supervised = supervise("controller=always_die_asked_to_drain", "+worker-0=serve_changed")
    reload(supervised)
    supervised.until_logged("starting it again in 0.1 s")
    supervised.leap(0.1)
    supervised.until_logged("reload: it stopped at worker-0; repeat it")
    supervised.leap(0.2)
    supervised.until(event="started", name="controller", generation=4)
    assert supervised.stop() == 0
    assert supervised.named("changed") == []
    assert supervised.named("started").count("worker-0") == 1
