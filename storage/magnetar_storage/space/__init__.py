"""The free space of the disk: its limit, the reserve, and the refusals below the limit."""
