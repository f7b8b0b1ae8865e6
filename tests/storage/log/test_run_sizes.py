"""Sizes of runs by their number of bits."""

from magnetar_storage.log.run_sizes import BITS, RunSizes


def test_runs_are_counted_up_to_rising_sizes() -> None:
    sizes = RunSizes()
    for entries in (1, 1, 3, 4, 1 << BITS, (1 << 32) - 1):
        sizes.add(entries)
    found = dict(sizes.up_to())
    assert [found[most] for most in (1, 3, 7, (1 << BITS) - 1, None)] == [2, 3, 4, 4, 6]
    assert sizes.entries == 9 + (1 << BITS) + (1 << 32) - 1
