"""Counts the entries that are read at once."""

BITS = 13
"""The bits of the largest size that is counted separately; larger sizes are counted together."""


class RunSizes:
    """The sizes of all runs since the start; counting a run costs two additions."""

    __slots__ = ("entries", "runs")

    def __init__(self) -> None:
        self.entries = 0
        self.runs = [0] * 33
        """The number of runs by the bits of their entries, which a client limits to 32."""

    def add(self, entries: int) -> None:
        """Count a run."""
        self.entries += entries
        # By powers of two: fine enough to see batches, and free of searches.
        self.runs[entries.bit_length()] += 1

    def up_to(self) -> list[tuple[int | None, int]]:
        """Return (n, number of runs with at most n entries) for rising n; None stands for all."""
        found: list[tuple[int | None, int]] = []
        total = 0
        for bits in range(1, BITS + 1):
            total += self.runs[bits]
            found.append(((1 << bits) - 1, total))
        return [*found, (None, sum(self.runs))]
