"""The stores of objects that a process keeps open: an open one has connections and certificates."""

from collections.abc import Callable
from typing import Final

from magnetar_storage.objects.interfaces import Objects

OPEN_PLACES: Final = 64
"""The most stores that are kept open; one that is open takes about 200 KB."""

OpenPlace = Callable[[str], Objects]
"""Opens the store of objects of a place; called in threads, `Unavailable` if that fails."""


class OpenPlaces:
    """Opens stores when they are needed; the one opened first is forgotten first."""

    def __init__(self, open_place: OpenPlace, most: int = OPEN_PLACES) -> None:
        self._open_place = open_place
        self._most = most
        self._open: dict[str, Objects] = {}

    def get(self, place: str) -> Objects:
        """Return the store of a place; called in any thread."""
        # Each step is one of the dictionary's own, which threads do not see half done.  Two threads
        # may open a store at the same time; either result will do.
        found = self._open.get(place)
        if found is None:
            found = self._open[place] = self._open_place(place)
            # promise[list(self._open) -> ()]: open stores have a limit
            for oldest in list(self._open)[: -self._most]:
                self._open.pop(oldest, None)
        return found
