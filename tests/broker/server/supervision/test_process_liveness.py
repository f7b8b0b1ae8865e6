"""Detection of processes that are alive but do not run, by a clock that the test sets."""

from magnetar_broker.server.supervision.process_liveness import REPORTS, ProcessLiveness

TIMEOUT = 30.0
INTERVAL = TIMEOUT / REPORTS


class World:
    """The liveness reports that a supervisor receives, and its turns at every interval."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.liveness = ProcessLiveness(TIMEOUT, lambda: self.now)

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and let the supervisor take a turn."""
        self.now += seconds
        self.liveness.advance()

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.pass_time(INTERVAL)


def test_silence_for_the_timeout_expires() -> None:
    world = World()
    world.liveness.begin("worker-0")
    world.turns(REPORTS - 1)
    assert not world.liveness.has_expired("worker-0")
    assert world.liveness.silence("worker-0") == TIMEOUT - INTERVAL
    world.turns(1)
    assert world.liveness.has_expired("worker-0")


def test_whatever_comes_from_a_process_ends_its_silence() -> None:
    world = World()
    for name in ("worker-0", "worker-1"):
        world.liveness.begin(name)
    for _ in range(3 * REPORTS):
        world.turns(1)
        world.liveness.reported("worker-0")
    assert not world.liveness.has_expired("worker-0")
    assert world.liveness.has_expired("worker-1")


def test_short_turns_add_up() -> None:
    world = World()
    world.liveness.begin("worker-0")
    for _ in range(1000):
        world.pass_time(TIMEOUT / 999)
    assert world.liveness.has_expired("worker-0")


def test_time_in_which_the_supervisor_did_not_run_is_not_counted() -> None:
    world = World()
    world.liveness.begin("worker-0")
    world.turns(5)
    world.pass_time(3600)
    assert world.liveness.silence("worker-0") == 6 * INTERVAL
    world.turns(REPORTS - 7)
    assert not world.liveness.has_expired("worker-0")
    world.turns(1)
    assert world.liveness.has_expired("worker-0")


def test_a_process_that_has_ended_is_not_silent() -> None:
    world = World()
    world.liveness.begin("worker-0")
    world.turns(REPORTS)
    world.liveness.end("worker-0")
    world.liveness.reported("worker-0")  # a report sent before its end
    world.turns(REPORTS)
    assert not world.liveness.has_expired("worker-0")
    assert world.liveness.silence("worker-0") == 0
    world.liveness.begin("worker-0")
    world.turns(REPORTS - 1)
    assert not world.liveness.has_expired("worker-0")


def test_a_process_is_expected_to_report_several_times_within_the_timeout() -> None:
    assert World().liveness.report_seconds == INTERVAL
