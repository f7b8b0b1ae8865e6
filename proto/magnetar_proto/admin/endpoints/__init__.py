"""The endpoints of the admin API, by subject.

The tables are formatted by hand: the formatter would give each word of an entry a line of its own.
"""
