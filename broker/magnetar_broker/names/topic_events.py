"""Notifies listeners of a namespace when one of its topics is created or deleted."""

from collections.abc import Callable

from magnetar_proto.names import TopicName

Listener = Callable[[TopicName, bool], None]


class TopicEvents:
    """Reports created and deleted topics; call `notify` when a change is durable, then answer."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[int, Listener]] = {}
        self._next = 0

    def watch(self, namespace: str, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, exists)` from now on; returns the function that ends it.

        A listener must not raise and must not wait.  Ending it twice is safe.
        """
        number, self._next = self._next, self._next + 1
        self._listeners.setdefault(namespace, {})[number] = listener

        def cancel() -> None:
            listeners = self._listeners.get(namespace, {})
            listeners.pop(number, None)
            if not listeners:
                self._listeners.pop(namespace, None)

        return cancel

    def notify(self, name: TopicName, exists: bool) -> None:
        """Report that a persistent topic, or a partition, was created or deleted.

        Call it for each name that listings show; reporting a known state is harmless.
        """
        listeners = self._listeners.get(name.namespace_name)
        if listeners is not None:
            for listener in list(listeners.values()):
                listener(name, exists)
