"""Counts how many entries are read at once."""

BITS = 13
"""Sizes are counted by their number of bits; above this many together."""


class RunSizes:
    """Since the start; counting a run is two additions."""

    __slots__ = ("entries", "runs")

    def __init__(self) -> None:
        self.entries = 0
        self.runs = [0] * 33
        """By the bits of their number of entries, which a client limits to 32."""

    def add(self, entries: int) -> None:
        """Count a run."""
        self.entries += entries
        self.runs[entries.bit_length()] += 1

    def up_to(self) -> list[tuple[int | None, int]]:
        """How many runs had up to so many entries, for rising numbers; None for all."""
        found: list[tuple[int | None, int]] = []
        total = 0
        for bits in range(1, BITS + 1):
            total += self.runs[bits]
            found.append(((1 << bits) - 1, total))
        return [*found, (None, sum(self.runs))]
