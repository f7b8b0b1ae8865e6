"""When one process has seen that the disk's room has changed, the others look, too: so all of them
behave alike."""

from collections.abc import Callable, Iterable

from magnetar_broker.links.link import Link
from magnetar_storage.space.disk_space import SpaceState

LOOK = "space.look"


def share_looks(space: SpaceState, peers: Callable[[], Iterable[Link]]) -> None:
    """Have the peers look whenever this process has seen a change."""

    def tell(_: bool) -> None:
        for link in peers():
            link.notify(LOOK)  # promise: all processes notice a full disk with the first of them

    space.when_changed(tell)


def serve_looks(space: SpaceState, link: Link) -> None:
    """Look when the peer has seen a change; to be called before the link is connected."""
    link.serve({LOOK: space.look_soon})
