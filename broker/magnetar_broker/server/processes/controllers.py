"""The controllers of a broker as one of its workers meets them, one after the other."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.names.workers.remote import RemoteDirectory
from magnetar_broker.server.processes.link_sockets import connect
from magnetar_broker.server.processes.process import Process
from magnetar_broker.server.supervision.control import Peer
from magnetar_broker.topic.joining import Joining
from magnetar_storage.errors import ProcessUnavailable

logger = logging.getLogger(__name__)


class Controllers:
    """Connects this worker to each controller, and joins those that follow the first one.

    The start of the worker joins the first one; if that ends meanwhile, the start fails.
    """

    def __init__(
        self,
        process: Process,
        links: SuccessiveLinks,
        joining: Joining,
        names: RemoteDirectory,
        serve: Sequence[Callable[[Link], None]],
        rejoin: Callable[[Link], Awaitable[None]],
    ) -> None:
        """`serve` prepare a link to a controller before it is connected.

        `rejoin` is called with the link to each controller but the first one, before it is joined.
        """
        self._process = process
        self._links = links
        self._joining = joining
        self._names = names
        self._serve = serve
        self._prepare = rejoin
        self.has_started = False
        """Whether this worker has joined its first controller; the start sets it."""

    def meet(self, peer: Peer) -> None:
        """Connect to a controller that has started, or started again."""
        process, former = self._process, self._links.latest
        if former is not None:
            former.close()  # its end may not have been noticed yet
        link = Link("the controller", process.clock, process.tasks)
        for serve in self._serve:
            serve(link)
        self._joining.connect(link)
        process.tasks.spawn(connect(link, peer.link, process.loop_timer))
        if self.has_started:
            process.tasks.spawn(self._rejoin(link))

    async def _rejoin(self, link: Link) -> None:
        logger.info("the controller has ended, and another one is joined; topics are served")
        try:
            await self._prepare(link)
            await self._joining.join(self._names)
        except ProcessUnavailable:
            return  # it has ended, too: the supervisor starts another one
        except Exception:  # whatever it is, this worker is no longer part of the broker
            logger.exception("this worker could not join the controller, and is started again")
            self._process.stop()
            return
        logger.info("joined the controller")
