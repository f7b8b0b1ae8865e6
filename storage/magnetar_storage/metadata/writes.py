"""Writes that wait for their transaction, and their outcomes."""

from typing import NamedTuple

from magnetar_storage.interfaces import Absent, Change, Guard, Version


class Put(NamedTuple):
    key: str
    value: bytes
    expect: Version | Absent | None
    lease: str | None
    guard: Guard | None = None


class Delete(NamedTuple):
    key: str
    expect: Version | None
    guard: Guard | None = None


class EndLease(NamedTuple):
    """A deletion of the keys that were put under the lease."""

    lease: str


Write = Put | Delete | EndLease
Changes = list[Change]
Outcome = Changes | BaseException
"""The changes of a write, or the error with which it was refused."""
