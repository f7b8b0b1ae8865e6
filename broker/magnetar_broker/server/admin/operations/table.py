"""All operations by name, as one process requests them from another."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, Final

from magnetar_broker.server.admin.operations import (
    damage,
    loading,
    messages,
    participants,
    reading,
    replaying,
    searching,
    statistics,
    subscriptions,
    topics,
    transactions,
)

Operation = Callable[..., Awaitable[Any]]


def name_of(operation: Operation) -> str:
    """Return the name of an operation: its module and its own name."""
    return f"{operation.__module__.rpartition('.')[2]}.{operation.__name__}"


def _by_name(operations: Iterable[Operation]) -> Mapping[str, Operation]:
    return {name_of(operation): operation for operation in operations}


def _operations_in(module: ModuleType) -> list[Operation]:
    """Return the public coroutine functions that a module defines."""
    return [
        one
        for name, one in vars(module).items()
        if iscoroutinefunction(one) and one.__module__ == module.__name__ and name[0] != "_"
    ]


MODULES: Final = (
    damage, messages, participants, reading, replaying, searching, statistics, subscriptions,
    topics, transactions,
)  # fmt: skip
"""The modules of which every public coroutine function is an operation."""
OF_PROCESS: Final = _by_name(
    (
        damage.known,
        messages.check_quotas,
        statistics.loaded_names,
        statistics.brief,
        statistics.load,
    )
)
"""The operations on a process; the others are on a topic, whose name is their second argument."""
OF_TOPIC: Final = _by_name(
    one
    for one in (
        *(one for module in MODULES for one in _operations_in(module)),
        loading.load,
        loading.require_subscription,
    )
    if name_of(one) not in OF_PROCESS
)
