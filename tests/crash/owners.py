"""Clients of a broker of several processes: a connection to each that serves a topic they use."""

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
        process = process_of(self._any.request(pb.CommandLookupTopic(topic=topic, request_id=0)))
        if process not in self._connections:
            self._connections[process] = RawClient(self._port, process=process)
        return self._connections[process]
