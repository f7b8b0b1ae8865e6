"""The cursors of one log, as tests change and reopen them."""

from fakes.attached_states import Numbers
from fakes.logs import LogWorld
from magnetar_storage.cursors.cursor_log import ROLL_BYTES, ROLL_ENTRIES, CursorLog, DurableCursor
from magnetar_storage.log.log import Log

Outcomes = list[BaseException | None]
"""The outcomes that were reported for a change: an error, or None."""


class Cursors:
    """The cursors and attached states of one log; `reopen` forgets all that was in memory."""

    def __init__(
        self,
        roll_bytes: int = ROLL_BYTES,
        known: tuple[int, ...] = (1, 2),
        roll_entries: int = ROLL_ENTRIES,
    ) -> None:
        self.world = LogWorld()
        self.roll_bytes = roll_bytes
        self.roll_entries = roll_entries
        self.known = known
        self.reopen()

    def reopen(self) -> CursorLog:
        self.log: Log = self.world.open(writing=False)
        self.attached = {number: Numbers() for number in self.known}
        self.all = self.world.do(CursorLog.open(self.log, self.attached))
        self.all._roll_bytes = self.roll_bytes
        self.all._roll_entries = self.roll_entries
        return self.all

    def create(self, name: str, mark_delete: int = -1, **properties: str) -> DurableCursor:
        return self.world.do(self.all.create(name, mark_delete, properties))

    def ack(self, cursor: DurableCursor, *offsets: int) -> Outcomes:
        outcomes: Outcomes = []
        cursor.ack(offsets)
        self.all.cursor_changed(cursor, outcomes.append)
        return outcomes

    def put(self, number: int, key: int, value: int) -> Outcomes:
        outcomes: Outcomes = []
        self.attached[number].put(key, value)
        self.all.state_changed(number, outcomes.append)
        return outcomes

    def numbers(self) -> list[dict[int, int]]:
        return [state.all for state in self.attached.values()]

    def pump(self) -> None:
        self.world.clock.pump()
