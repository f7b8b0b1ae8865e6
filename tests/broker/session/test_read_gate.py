"""A client is read from unless some reason holds."""

from magnetar_broker.session.read_gate import ReadGate


class Socket:
    """Records what was called."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.gate = ReadGate(self, lambda: self.reported.append("resumed"))

    def pause_reading(self) -> None:
        self.reported.append("pause")

    def resume_reading(self) -> None:
        self.reported.append("resume")


def test_the_first_reason_pauses_and_the_last_one_resumes() -> None:
    socket = Socket()
    output, publishes = socket.gate.reason(), socket.gate.reason()
    output.pause_reading()
    publishes.pause_reading()
    output.resume_reading()
    assert socket.reported == ["pause"]
    publishes.resume_reading()
    assert socket.reported == ["pause", "resume", "resumed"]


def test_a_reason_that_does_not_hold_resumes_nothing() -> None:
    socket = Socket()
    socket.gate.reason().resume_reading()
    assert socket.reported == []


def test_a_reason_holds_once() -> None:
    socket = Socket()
    reason = socket.gate.reason()
    reason.pause_reading()
    reason.pause_reading()
    reason.resume_reading()
    assert socket.reported == ["pause", "resume", "resumed"]
