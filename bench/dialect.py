"""How a load speaks to a server: one dialect for each wire protocol."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from bench.connection import Connection, Link, connected, open_consumer
from bench.consuming import Arrivals, Receiver
from bench.frames import WRITE_ENTRIES, Load, Shape, encode_load
from bench.publishing import open_all

L = TypeVar("L", bound=Link)


class Dialect(ABC, Generic[L]):
    """What the rows need that mean the same on every server."""

    @abstractmethod
    def encode_load(
        self, topic: str, shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES
    ) -> Load:
        """What to publish, encoded before any clock starts; its shape states how it is packed."""

    @abstractmethod
    def connected(self, port: int) -> AbstractAsyncContextManager[L]:
        """A connection to a server on this machine, after its handshake."""

    @abstractmethod
    async def open_producer(self, link: L, topic: str, shape: Shape) -> None:
        """Return when loads of this shape may be sent."""

    @abstractmethod
    async def open_consumer(self, link: L, topic: str, subscription: str) -> None:
        """A subscription from the first message on, whose one consumer this connection is."""

    @abstractmethod
    def receiver(self, link: L, batch: int) -> Arrivals:
        """Takes what comes, from now on."""


class PulsarDialect(Dialect[Connection]):
    """Spoken by Magnetar, the floor and the original."""

    def encode_load(
        self, topic: str, shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES
    ) -> Load:
        return encode_load(shape, entries, write_entries)

    def connected(self, port: int) -> AbstractAsyncContextManager[Connection]:
        return connected(port)

    async def open_producer(self, link: Connection, topic: str, shape: Shape) -> None:
        await open_all(link, topic, shape)

    async def open_consumer(self, link: Connection, topic: str, subscription: str) -> None:
        await open_consumer(link, topic, subscription)

    def receiver(self, link: Connection, batch: int) -> Arrivals:
        return Receiver(link, batch)
