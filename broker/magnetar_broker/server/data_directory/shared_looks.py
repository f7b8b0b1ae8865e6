"""Makes all processes check the free disk space when one of them sees it change."""

from collections.abc import Callable, Iterable

from magnetar_broker.ipc.link import Link
from magnetar_storage.space.disk_space import SpaceState

LOOK = "space.look"


def share_looks(space: SpaceState, peers: Callable[[], Iterable[Link]]) -> None:
    """Ask the peers to check the free space whenever this process has seen a change."""

    def tell(_: bool) -> None:
        for link in peers():
            link.notify(LOOK)  # promise: all processes notice a full disk with the first of them

    space.when_changed(tell)


def serve_looks(space: SpaceState, link: Link) -> None:
    """Check the free space when the peer has seen a change; call it before connecting the link."""
    link.serve({LOOK: space.look_soon})
