"""The free space of the disk: how much is to be left, the reserve, and what is refused below it."""
