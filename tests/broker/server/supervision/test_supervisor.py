"""The supervisor, with real processes that only report events (supervised.py)."""

import os
import resource
import signal

import pytest

from broker.server.supervision.supervising import Supervise
from magnetar_broker.server.supervision.supervisor import (
    MAX_PAUSE_SECONDS,
    SHORT_LIFE_SECONDS,
    Pauses,
)

SILENCE_SECONDS = 60.0
OTHERS = ("controller", "worker-0")
"""Processes that continue while worker-1 hangs."""
TELLING = tuple(f"{name}=tell_reports" for name in OTHERS)


def test_each_process_is_connected_with_each_other_one(supervise: Supervise) -> None:
    supervised = supervise(workers=3)
    supervised.until(event="ready")
    assert sorted(supervised.named("started")) == ["controller", "worker-0", "worker-1", "worker-2"]
    numbers = {"controller": None, "worker-0": 0, "worker-1": 1, "worker-2": 2}
    for name, own in numbers.items():
        for other, number in numbers.items():
            if other != name:
                met = supervised.until(event="met", name=name, worker=number)
                sockets = 1 if None in (number, own) else 2
                assert (met["peer_generation"], met["greetings"]) == (1, [f"{other} 1"] * sockets)
    assert supervised.stop() == 0


def test_a_stop_ends_the_workers_before_the_controller(supervise: Supervise) -> None:
    supervised = supervise()
    supervised.until(event="ready")
    assert supervised.stop() == 0
    assert sorted(supervised.named("stopped")[:2]) == ["worker-0", "worker-1"]
    assert supervised.named("stopped")[2:] == ["controller"]
    assert {event.get("reason") for event in supervised.events if event["event"] == "stopped"} == {
        "the broker stops"
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_is_an_ordered_stop(
    supervise: Supervise, number: signal.Signals
) -> None:
    supervised = supervise()
    supervised.until(event="ready")
    os.killpg(supervised.process.pid, number)
    assert supervised.wait() == 0
    assert supervised.named("stopped")[2:] == ["controller"]


def test_a_start_is_complete_when_every_process_is_ready(supervise: Supervise) -> None:
    supervised = supervise("worker-1=never_ready")
    for name in ("controller", "worker-0", "worker-1"):
        supervised.until(event="started", name=name)
    assert supervised.stop() == 0
    assert supervised.named("ready") == []
    assert supervised.named("stopped")[2:] == ["controller"]


@pytest.mark.parametrize("name", ["controller", "worker-1"])
@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        ("fail", "Error: {name} cannot start: there is no room"),
        ("fail_with_defect", "Error: {name} cannot start: KeyError: 'a defect'"),
        ("leave", "Error: {name} cannot start: SystemExit: left"),
        ("die", "Error: {name} was ended by signal 9 (Killed) while the broker started"),
    ],
)
def test_a_process_that_cannot_start_stops_all_others(
    supervise: Supervise, name: str, behaviour: str, text: str
) -> None:
    supervised = supervise(f"{name}={behaviour}")
    assert supervised.wait() == 1
    assert supervised.log.splitlines()[-1] == text.format(name=name)
    assert ("Traceback" in supervised.log) == (behaviour in ("fail_with_defect", "leave"))
    assert supervised.named("ready") == []
    assert sorted(supervised.named("stopped")) == sorted(supervised.named("started"))


def test_a_worker_that_dies_is_started_again_with_new_connections(supervise: Supervise) -> None:
    supervised = supervise()
    supervised.until(event="ready")
    supervised.kill("worker-1", signal.SIGSEGV)
    supervised.until(event="started", name="worker-1", generation=2)
    for number, name, sockets in ((None, "controller", 1), (0, "worker-0", 2)):
        supervised.until(event="met", name="worker-1", generation=2, worker=number)
        met = supervised.until(event="met", name=name, worker=1, peer_generation=2)
        assert met["greetings"] == ["worker-1 2"] * sockets
    assert supervised.stop() == 0
    assert supervised.named("started").count("worker-0") == 1
    assert (
        "worker-1 was ended by signal 11 (Segmentation fault); starting it again" in supervised.log
    )


def test_a_worker_that_dies_again_and_again_is_started_again(supervise: Supervise) -> None:
    supervised = supervise("worker-0=die_twice_when_restarted")
    supervised.until(event="ready")
    supervised.kill("worker-0")
    killed = "worker-0 was ended by signal 9 (Killed); starting it "
    for pause in (0.1, 0.2):
        supervised.until_logged(f"{killed}again in {pause} s\n")
        supervised.leap(pause)
    supervised.until(event="started", name="worker-0", generation=4)
    supervised.until(event="met", name="worker-1", worker=0, peer_generation=4)
    assert supervised.stop() == 0
    assert f"{killed}again\n" in supervised.log


def test_a_worker_that_cannot_start_again_does_not_end_the_others(supervise: Supervise) -> None:
    supervised = supervise("worker-0=fail_when_restarted")
    supervised.until(event="ready")
    supervised.kill("worker-0")
    supervised.until_logged("worker-0 ended with exit code 1: there is no room; starting it again")
    supervised.leap(MAX_PAUSE_SECONDS)
    supervised.until(event="started", name="worker-0", generation=3)
    assert supervised.stop() == 0


def test_a_restart_waits_while_the_system_is_short_of_descriptors(supervise: Supervise) -> None:
    supervised = supervise()
    supervised.until(event="ready")
    pid, (soft, hard) = supervised.process.pid, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    supervised.kill("worker-0")
    supervised.until_logged("worker-0 cannot be started: [Errno 24] Too many open files")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    supervised.leap(MAX_PAUSE_SECONDS)
    supervised.until(event="met", name="worker-1", worker=0, peer_generation=2)
    assert supervised.stop() == 0


def test_the_controller_is_started_again_while_the_workers_run(supervise: Supervise) -> None:
    supervised = supervise()
    supervised.until_connected()
    supervised.kill("controller")
    supervised.until(event="started", name="controller", generation=2)
    for number, name in enumerate(("worker-0", "worker-1")):
        supervised.until(event="met", name="controller", generation=2, worker=number)
        met = supervised.until(event="met", name=name, worker=None, peer_generation=2)
        assert (met["generation"], met["greetings"]) == (1, ["controller 2"])
    assert supervised.named("stopped") == []
    assert supervised.stop() == 0
    assert supervised.named("ready") == ["supervisor"]
    assert "controller was ended by signal 9 (Killed); starting it again" in supervised.log


def test_a_controller_that_dies_again_and_again_is_started_again(supervise: Supervise) -> None:
    supervised = supervise("controller=die_twice_when_restarted")
    supervised.until_connected()
    supervised.kill("controller")
    for pause in (0.1, 0.2):
        supervised.until_logged(f"(Killed); starting it again in {pause} s\n")
        supervised.leap(pause)
    supervised.until(event="met", name="worker-1", worker=None, peer_generation=4)
    assert supervised.stop() == 0
    assert supervised.named("started").count("worker-1") == 1


def test_a_broker_stops_while_its_controller_is_not_there(supervise: Supervise) -> None:
    supervised = supervise("controller=fail_when_restarted")
    supervised.until_connected()
    supervised.kill("controller")
    supervised.until_logged("there is no room; starting it again in 0.1 s")
    assert supervised.stop() == 0
    assert sorted(supervised.named("stopped")) == ["worker-0", "worker-1"]


def test_a_worker_that_the_controller_has_lost_is_started_again(supervise: Supervise) -> None:
    supervised = supervise("controller=lose_worker")
    supervised.until_connected()
    supervised.kill("controller", signal.SIGUSR2)
    stopped = supervised.until(event="stopped", name="worker-1", generation=1)
    assert stopped["reason"] == "the controller has closed the link"
    supervised.until(event="met", name="controller", worker=1, peer_generation=2)
    # The controller has lost the former process.
    supervised.kill("controller", signal.SIGUSR2)
    supervised.until(event="lost", times=2)
    supervised.kill("worker-0")
    supervised.until(event="met", name="controller", worker=0, peer_generation=2)
    assert supervised.stop() == 0
    stops = [found for found in supervised.events if found["event"] == "stopped"]
    assert [found["reason"] for found in stops if found["name"] == "worker-1"] == [
        "the controller has closed the link",
        "the broker stops",
    ]


def test_no_process_outlives_the_supervisor(supervise: Supervise) -> None:
    supervised = supervise()
    supervised.until(event="ready")
    supervised.process.kill()
    assert supervised.wait() == -signal.SIGKILL
    assert sorted(supervised.named("stopped")) == ["controller", "worker-0", "worker-1"]


def test_a_stop_that_takes_too_long_kills_who_is_left(supervise: Supervise) -> None:
    supervised = supervise("worker-1=stubborn", stop_seconds=60)
    supervised.until(event="ready")
    supervised.process.terminate()
    supervised.until(event="stopped", name="worker-1")
    supervised.leap(60)
    assert supervised.wait() == 1
    assert "stop took longer than 60000 ms (brokerShutdownTimeoutMs): killing " in supervised.log
    assert "worker-1 was ended by signal 9 (Killed)" in supervised.log


def test_a_second_signal_kills_who_is_left(supervise: Supervise) -> None:
    supervised = supervise("worker-1=stubborn")
    supervised.until(event="ready")
    supervised.process.terminate()
    supervised.until(event="stopped", name="worker-1")
    assert supervised.stop() == 1
    assert "asked to stop a second time: killing controller, " in supervised.log


def test_a_worker_that_hangs_is_killed_and_started_again(supervise: Supervise) -> None:
    supervised = supervise(*TELLING, silence_seconds=SILENCE_SECONDS)
    supervised.until_connected()
    supervised.kill("worker-1", signal.SIGSTOP)
    supervised.expire(SILENCE_SECONDS, *OTHERS)
    supervised.until(event="met", name="worker-0", worker=1, peer_generation=2)
    pid = supervised.until(event="started", name="worker-1")["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    assert supervised.stop() == 0
    assert supervised.named("started").count("worker-0") == 1
    assert f"worker-1 (process {pid}) is killed: its event loop has not run for " in supervised.log
    assert "is: stopped. Look for what has sent it SIGSTOP\n" in supervised.log
    assert "worker-1 was ended by signal 9 (Killed): its event loop had not run" in supervised.log
    assert supervised.log.count("is killed") == 1


def test_a_controller_that_hangs_is_killed_and_started_again(supervise: Supervise) -> None:
    supervised = supervise(
        "worker-0=tell_reports",
        "worker-1=tell_reports",
        silence_seconds=SILENCE_SECONDS,
    )
    supervised.until_connected()
    supervised.kill("controller", signal.SIGSTOP)
    supervised.expire(SILENCE_SECONDS, "worker-0", "worker-1")
    supervised.until(event="met", name="worker-0", generation=1, worker=None, peer_generation=2)
    assert supervised.named("stopped") == []
    assert supervised.stop() == 0
    assert supervised.log.count("is killed") == 1


def test_a_process_that_reports_nothing_fails_the_start(supervise: Supervise) -> None:
    supervised = supervise(
        "worker-1=report_nothing",
        *TELLING,
        silence_seconds=SILENCE_SECONDS,
    )
    supervised.until(event="started", name="worker-0")
    supervised.expire(SILENCE_SECONDS, *OTHERS)
    assert supervised.wait() == 1
    last = supervised.log.splitlines()[-1]
    assert last.startswith("Error: worker-1 cannot start: its event loop had not run for ")


def test_a_stop_does_not_wait_for_a_process_that_hangs(supervise: Supervise) -> None:
    supervised = supervise(
        *TELLING, silence_seconds=SILENCE_SECONDS, stop_seconds=100 * SILENCE_SECONDS
    )
    supervised.until_connected()
    supervised.kill("worker-1", signal.SIGSTOP)
    supervised.process.terminate()
    supervised.until(event="stopped", name="worker-0")
    supervised.expire(SILENCE_SECONDS, "controller")
    assert supervised.wait() == 1
    assert supervised.named("stopped") == ["worker-0", "controller"]
    assert "brokerShutdownTimeoutMs" not in supervised.log


def test_time_in_which_the_supervisor_itself_does_not_run_is_not_counted(
    supervise: Supervise,
) -> None:
    supervised = supervise(silence_seconds=SILENCE_SECONDS)
    supervised.until_connected()
    supervised.leap(2 * SILENCE_SECONDS)  # between two turns
    supervised.kill("worker-0")
    supervised.until(event="met", name="worker-1", worker=0, peer_generation=2)
    assert supervised.stop() == 0
    assert supervised.named("started").count("worker-1") == 1
    assert "is killed" not in supervised.log


def test_an_error_at_the_end_is_an_exit_code(supervise: Supervise) -> None:
    supervised = supervise("worker-0=fail_at_the_end")
    supervised.until(event="ready")
    assert supervised.stop() == 1
    assert "worker-0 ended with exit code 1: there is no room" in supervised.log


def test_each_process_has_its_own_descriptors_only(supervise: Supervise) -> None:
    names = ("controller", "worker-0", "worker-1")
    supervised = supervise(*(f"{name}=descriptors" for name in names))
    inherited = supervised.until(event="ready")["inherited"]
    for name in names:
        event = supervised.until(event="descriptors", name=name)
        assert len(event["own"]) == 2
        # Received ends of pairs have not been read yet.
        assert event["all"] == sorted({*inherited, *event["own"]})
    assert supervised.stop() == 0


def test_log_records_name_their_process(supervise: Supervise) -> None:
    supervised = supervise("controller=log", "worker-1=log")
    supervised.until(event="ready")
    assert supervised.stop() == 0
    for name in ("controller", "worker-1"):
        assert f" WARNING {name} test: a line of {name}\n" in supervised.log


def test_pauses_grow_with_short_lives_and_end_with_a_long_one() -> None:
    pauses = Pauses()
    growing = [pauses.after(lived_seconds=0) for _ in range(2000)]
    assert growing[:5] == [0, 0.1, 0.2, 0.4, 0.8]
    assert growing[-1] == MAX_PAUSE_SECONDS
    assert pauses.after(SHORT_LIFE_SECONDS) == 0
    assert pauses.after(0) == 0
    assert pauses.after(0) == 0.1
