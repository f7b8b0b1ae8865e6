"""Operations on topics of other processes, over links."""

from collections.abc import Awaitable
from typing import Any

from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.runtime import Runtime
from magnetar_broker.broker import Broker
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.workers.distributed_topic_host import DistributedTopicHost
from magnetar_broker.server.admin.operations.table import OF_PROCESS, OF_TOPIC, name_of
from magnetar_broker.server.admin.owners import OfProcess, OfTopic, P, R
from magnetar_broker.server.http.messages import Refused
from magnetar_proto.names import TopicName


class LinkedOwners:
    """The `Owners` of a controller: each worker serves the topics of its bundles."""

    def __init__(self, topic_host: DistributedTopicHost, runtime: Runtime) -> None:
        self._topic_host = topic_host
        self._runtime = runtime

    async def ask(
        self, operation: OfTopic[P, R], topic: TopicName, *args: P.args, **named: P.kwargs
    ) -> R:
        """Ask the worker that serves the topic; `NotReady` while it does not run."""
        assert not named
        while True:
            link = await self._topic_host.link_of(topic)
            request = link.request("operations.of_topic", name_of(operation), str(topic), args)
            try:
                answer: R = await _answer(request)
            except NotReady:
                if await self._topic_host.link_of(topic) is link:
                    raise
                continue  # the topic was moved to another worker meanwhile
            return answer

    async def ask_all(
        self, operation: OfProcess[P, R], *args: P.args, **named: P.kwargs
    ) -> list[R]:
        """Ask all workers that run."""
        assert not named
        answers: list[R] = []

        async def ask(link: Link) -> None:
            request = link.request("operations.of_process", name_of(operation), args)
            answers.append(await _answer(request))

        await for_each(self._runtime, self._topic_host.links.all(), ask)
        return answers


async def _answer(request: Awaitable[tuple[int | None, Any]]) -> Any:
    status, answer = await request
    if status is not None:
        raise Refused(status, answer)
    return answer


def serve_operations(broker: Broker, link: Link) -> None:
    """Answer the requests of `LinkedOwners` in a worker."""

    async def of_topic(name: str, topic: str, args: tuple[Any, ...]) -> tuple[int | None, Any]:
        return await _outcome(OF_TOPIC[name](broker, TopicName.parse(topic), *args))

    async def of_process(name: str, args: tuple[Any, ...]) -> tuple[int | None, Any]:
        return await _outcome(OF_PROCESS[name](broker, *args))

    link.serve({"operations.of_topic": of_topic, "operations.of_process": of_process})


async def _outcome(operation: Awaitable[Any]) -> tuple[int | None, Any]:
    """Return None and the answer, or the status and the text of a refusal that only HTTP has."""
    try:
        return None, await operation
    except Refused as error:
        # promise[error.status -> 500]: a refusal of another process keeps its status
        return error.status, str(error)
