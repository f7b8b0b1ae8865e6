"""A worker's part in the replacement of the controller: it joins each one with what it serves."""

import logging

from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.names.workers.remote import RemoteDirectory
from magnetar_broker.placement.bundle_owners import BundleOwners
from magnetar_broker.policies.shared import Learning
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_broker.topic.requests import TopicRequests
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import Mutex

logger = logging.getLogger(__name__)


class Joining:
    """Joins the controllers of a broker, of which one follows the other.

    Loaded topics are served all the time.  While there is no controller, changes of their metadata
    wait, and so does whatever asks for names.
    """

    def __init__(
        self,
        connected: SuccessiveLinks,
        topic_host: LocalTopicHost,
        policies: PolicyView,
        owners: BundleOwners,
        clock: Clock,
    ) -> None:
        """`connected` are the links over which the metadata of topics is written."""
        self.connected = connected
        self.joined = SuccessiveLinks("the controller", clock)
        """The links over which names are asked for."""
        self._topic_host = topic_host
        self._owners = owners
        self._requests = TopicRequests(topic_host, clock)
        self._learning = Learning(policies)
        self._joining = Mutex(clock)

    def serve(self, link: Link) -> None:
        """Answer a controller; call it before the link is connected."""
        self._requests.serve(link)
        self._learning.serve(link)

    def connect(self, link: Link) -> None:
        """Use a link, which may not be connected yet, for the metadata of this process's topics."""
        # promise: a controller knows whose metadata a worker writes before the worker writes it
        link.notify("names.hold", _texts(self._requests.held()))
        self.connected.replace(link)

    async def join(self, names: RemoteDirectory) -> None:
        """Join the controller of the latest link; names can be used on return.

        Raises `ProcessUnavailable` if it ends meanwhile: another one is joined then.
        """
        async with self._joining.held():
            # promise: a worker joins when nothing of its topics changes for a former controller
            await self._requests.settle()
            link = await self.connected.present()
            if link is not self.joined.latest:
                await self._join(names, link)

    async def _join(self, names: RemoteDirectory, link: Link) -> None:
        loaded = self._requests.notify(link)
        table = [self._owners.values_of(*line) for line in self._owners.all()]
        await link.request("names.join", _texts(loaded), table)
        await names.watch_again(link)
        self.joined.replace(link)
        try:
            await self._topic_host.catch_up()
        except StorageError as error:
            logger.error("some topics follow changed policies only when they are loaded: %s", error)

    def stop(self) -> None:
        """Wait for no other controller."""
        self.connected.wait_no_longer()
        self.joined.wait_no_longer()


def _texts(names: list[TopicName]) -> list[str]:
    return list(map(str, names))
