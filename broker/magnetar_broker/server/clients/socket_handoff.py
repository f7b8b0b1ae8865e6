"""Clients' sockets in a worker: accepted here, passed to other workers, and received from them."""

from collections.abc import Iterable, Mapping
from socket import socket

from magnetar_broker.limits.admission import Admission
from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_broker.server.clients.client_router import ClientRouter
from magnetar_broker.server.clients.client_socket import Take
from magnetar_broker.server.clients.origin import Origin
from magnetar_broker.server.clients.socket_receiver import SocketReceiver
from magnetar_broker.server.clients.socket_sender import SocketSender
from magnetar_broker.server.clients.tls_client_router import Serve, TlsClientRouter
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.supervision.children import name_of
from magnetar_broker.server.supervision.control import Peer
from magnetar_broker.server.tls.contexts import Contexts


class SocketHandoff:
    """Passes clients to the workers that they name.  Call `start` once, when this process can serve
    clients, and `stop` once."""

    def __init__(
        self,
        listening: Iterable[socket],
        others: Iterable[int],
        descriptors: Descriptors,
        loop_timer: LoopTimer,
        tls: tuple[Iterable[socket], Contexts | None] = ((), None),
    ) -> None:
        """`listening` and the sockets of `tls` are bound; `others` numbers the other workers."""
        self._descriptors = descriptors
        self._loop_timer = loop_timer
        self._senders = {n: SocketSender(name_of(n), loop_timer) for n in others}
        self._receivers: dict[int, SocketReceiver] = {}
        self._waiting: dict[int, socket] = {}
        """By worker: the channel that brings clients from it, until clients can be served."""
        self._take: Take | None = None
        self._destinations: dict[str, Take] = {}
        self._others: dict[str, Take] = {}
        self._routers = [
            ClientRouter(one, self._destinations, descriptors, loop_timer) for one in listening
        ]
        tls_listening, contexts = tls
        self._tls_routers = [
            TlsClientRouter(one, contexts, self._others, descriptors, loop_timer)
            for one in tls_listening
            if contexts is not None
        ]

    def connect(self, peer: Peer) -> None:
        """Connect to another worker that has started, or started again."""
        assert peer.worker is not None
        assert peer.clients_out is not None and peer.clients_in is not None
        self._senders[peer.worker].replace(peer.clients_out)
        if self._take is None:
            if peer.worker in self._waiting:
                self._waiting[peer.worker].close()
            self._waiting[peer.worker] = peer.clients_in
        else:
            self._receive_from(peer.worker, peer.clients_in, self._take)

    def start(
        self,
        admission: Admission,
        take: Take,
        serve: Serve,
        own: str,
        addresses: Mapping[int, str],
        receiving: HeldBytes,
        readers: SlowReaders,
    ) -> None:
        """Accept clients within the limits of `admission`, `receiving` and `readers`.

        `take` receives the clients for this worker, `serve` those with TLS.

        Clients name this worker by the address `own`, or name none; `addresses` are the addresses
        of the other workers.
        """
        self._take = take
        for sender in self._senders.values():
            sender.start(admission)
        self._destinations |= {"": take, own: take}
        self._others |= {
            address: self._senders[number].send for number, address in addresses.items()
        }
        self._destinations |= self._others
        for number, channel in self._waiting.items():
            self._receive_from(number, channel, take)
        self._waiting.clear()
        for router in self._routers:
            router.start(admission)
        for tls_router in self._tls_routers:
            tls_router.start(admission, serve, own, receiving, readers)

    def send(self, worker: int, client: socket, frame: bytes, origin: Origin) -> None:
        """Pass a client and its first frame to another worker."""
        self._senders[worker].send(client, frame, origin)

    def stop(self) -> None:
        """Stop accepting and receiving clients; refuse clients that wait for another worker."""
        for router in self._routers:
            router.stop()
        for tls_router in self._tls_routers:
            tls_router.stop()
        for sender in self._senders.values():
            sender.stop()
        for receiver in self._receivers.values():
            receiver.stop()
        for channel in self._waiting.values():
            channel.close()

    async def ended(self) -> None:
        """Wait until the clients of other workers are disconnected, or a time limit has passed."""
        for router in self._tls_routers:
            await router.ended()

    def _receive_from(self, number: int, channel: socket, take: Take) -> None:
        # The arrival from that worker's former process ends by itself.
        self._receivers[number] = SocketReceiver(channel, take, self._descriptors, self._loop_timer)
