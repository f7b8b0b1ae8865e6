"""What is queued for a client, and whether it keeps up."""

from magnetar_broker.session.output import OUTBOX_BYTES, Output


class Shell:
    def __init__(self) -> None:
        self.flushes = 0
        self.output = Output(self.flush_soon)

    def flush_soon(self) -> None:
        self.flushes += 1


def test_frames_are_taken_in_order_and_a_turn_is_flushed_once() -> None:
    shell = Shell()
    shell.output.send(b"a")
    shell.output.send_all([b"b", b"c"], 2)
    assert shell.output.take() == [b"a", b"b", b"c"] and shell.flushes == 1
    assert shell.output.take() == []
    shell.output.send_all([b"d"], 1)
    assert shell.flushes == 2


def test_there_is_no_room_while_much_is_queued_or_the_socket_is_full_or_closed() -> None:
    output = Shell().output
    assert output.has_room() and not output.take_starved()
    output.send(bytes(OUTBOX_BYTES))
    assert not output.has_room()
    output.take()
    assert output.has_room()
    output.peer_full = True
    assert not output.has_room()
    output.peer_full, output.closed = False, True
    assert not output.has_room()


def test_what_found_no_room_is_reported_once_when_there_is_some() -> None:
    output = Shell().output
    output.peer_full = True
    assert not output.has_room()
    assert not output.take_starved(), "there is still none"
    output.peer_full = False
    assert output.take_starved()
    assert not output.take_starved()
