"""Topics that come and go, told to whoever keeps a list of a namespace's topics."""

from collections.abc import Callable

from magnetar_proto.names import TopicName

Listener = Callable[[TopicName, bool], None]


class TopicEvents:
    """One per broker.  `tell` comes after the change is durable and before it is answered."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[int, Listener]] = {}
        self._next = 0

    def watch(self, namespace: str, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, exists)` from now on; returns what ends that, also twice.

        A listener must not raise and must not wait.
        """
        number, self._next = self._next, self._next + 1
        self._listeners.setdefault(namespace, {})[number] = listener

        def cancel() -> None:
            listeners = self._listeners.get(namespace, {})
            listeners.pop(number, None)
            if not listeners:
                self._listeners.pop(namespace, None)

        return cancel

    def tell(self, name: TopicName, exists: bool) -> None:
        """A persistent topic, or a partition, was made or is gone.

        Tell each name that listings show; telling what is known already is harmless.
        """
        listeners = self._listeners.get(name.namespace_name)
        if listeners is not None:
            for listener in list(listeners.values()):
                listener(name, exists)
