"""Clients of a broker of several processes: a connection to each that serves a topic they use."""

import re

from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient, process_of


class Owners:
    """Use it in a `with` statement; one connection stays while the topics of its process do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._any = RawClient(port)
        self._connections: dict[str | None, RawClient] = {None: self._any}

    def __enter__(self) -> "Owners":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def of(self, topic: str) -> RawClient:
        """The connection to the process that serves a topic; `Closed` if it is not found now."""
        process = _process_of(self._any, topic)
        if process not in self._connections:
            self._connections[process] = RawClient(self._port, process=process)
        return self._connections[process]

    def number_of(self, topic: str) -> int:
        """The number of the worker that serves a topic; `Closed` if it is not found now."""
        return owner_of(self._any, topic)


def owner_of(client: RawClient, topic: str) -> int:
    """The number of the worker that serves a topic; `Closed` if it is not found now."""
    named = re.match(r"worker-(\d+):", _process_of(client, topic) or "")
    return 0 if named is None else int(named[1])  # a broker that is one process has no names


def _process_of(client: RawClient, topic: str) -> str | None:
    return process_of(client.request(pb.CommandLookupTopic(topic=topic, request_id=0)))
