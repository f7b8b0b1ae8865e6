"""A durable state beside cursors, for tests."""


class Numbers:
    """Numbers by key; each piece holds one."""

    def __init__(self) -> None:
        self.all: dict[int, int] = {}
        self._changed: set[int] = set()

    def put(self, key: int, value: int) -> None:
        """Set a number, and report the change to the cursor log."""
        self.all[key] = value
        self._changed.add(key)

    def take_delta(self) -> list[bytes]:
        changed, self._changed = self._changed, set()
        return [b"%d %d" % (key, self.all[key]) for key in sorted(changed)]

    def snapshot(self) -> list[bytes]:
        self._changed = set(self.all)
        return self.take_delta()

    def apply(self, data: bytes) -> None:
        key, value = data.split()
        self.all[int(key)] = int(value)
