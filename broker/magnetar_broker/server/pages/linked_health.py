"""The health of all workers of a broker, over links."""

from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.runtime import Runtime
from magnetar_broker.ipc.answer_within import answer_within
from magnetar_broker.ipc.link import Link
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_broker.server.pages.health import LIMIT_SECONDS, HealthCheck, Unhealthy
from magnetar_broker.server.supervision.children import name_of
from magnetar_storage.errors import ProcessUnavailable

CHECK = "health.check"
ANSWER_SECONDS = LIMIT_SECONDS + 1
"""The time limit of a worker's answer: a worker that runs names the step that takes too long."""


class LinkedHealth:
    """The health check of the controller: the check of each worker (`HealthCheck.check`).

    Each worker publishes and consumes a message, except a worker that serves no topic for it.
    """

    def __init__(self, links: WorkerLinks, runtime: Runtime) -> None:
        self._links = links
        self._runtime = runtime

    async def check(self, process: str | None = None) -> None:
        """Check that all workers are healthy within a time limit; raise `Unhealthy` if not.

        `process` is the name of the only worker to check; None checks all workers.
        """
        missing = [name_of(number) for number in self._links.missing()]
        links = self._links.all()
        if process is not None:
            # promise: the health check of one worker depends on that one only
            missing = [name for name in missing if name == process]
            links = [link for link in links if link.peer == process]
        if missing:  # promise: the health check fails when a worker is missing
            raise Unhealthy(f"{', '.join(missing)}: starting or stopping")
        await for_each(self._runtime, links, self._check)

    async def _check(self, link: Link) -> None:
        try:
            # promise[answer_within(self._runtime.clock, ANSWER_SECONDS, link, -> link.request(]:
            #   the health check does not wait for a stopped process
            trouble = await answer_within(self._runtime.clock, ANSWER_SECONDS, link, CHECK)
        except ProcessUnavailable as error:
            raise Unhealthy(str(error)) from error
        if trouble is not None:  # promise: the health check fails when a worker is not healthy
            raise Unhealthy(f"{link.peer}: {trouble}")


def serve_health(health: HealthCheck, link: Link) -> None:
    """Answer the requests of `LinkedHealth` in a worker."""

    async def check() -> str | None:
        try:
            await health.check()
        except Unhealthy as error:
            return str(error)
        return None

    link.serve({CHECK: check})
