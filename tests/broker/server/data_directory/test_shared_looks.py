"""A change of free disk space that one process detects makes the others check."""

from fakes.links import Joined
from fakes.space import set_room
from magnetar_broker.server.data_directory.shared_looks import serve_looks, share_looks
from magnetar_storage.space.disk_space import SpaceState


class Counting(SpaceState):
    looks = 0

    def look_soon(self) -> None:
        self.looks += 1


def test_the_others_look_when_room_begins_to_lack_and_when_there_is_enough() -> None:
    joined = Joined()
    one, other = SpaceState(), Counting()
    share_looks(one, lambda: [joined.left])
    serve_looks(other, joined.right)
    joined.connect()
    joined.clock.pump()
    for number, is_low in enumerate((True, False), 1):
        set_room(one, is_low)
        joined.clock.pump()
        assert other.looks == number
