"""Policies that other processes view, over links."""

from functools import partial
from typing import Any

from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
from magnetar_broker.policies.effective import StoredPolicies
from magnetar_broker.policies.policy import Subject, subject_named
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.view import PolicyView

LEARN, LEARNED = "policies.learn", "policies.learned"
"""The messages to a view: the values of a subject, and the end of all values known so far."""


class SharedPolicies(Policies):
    """`Policies` that send every explicit value that they learn to the views of other processes.

    A view knows a value before anything that is sent over its link afterwards: before the load of a
    topic, and before the application of a change.
    """

    def __init__(self, metadata: GuardedMetadata, settings: Settings) -> None:
        super().__init__(metadata, settings)
        self._views: list[Link] = []

    def share(self, link: Link) -> None:
        """Send a view everything that is known now, and from now on every change."""
        # promise: a worker that is started again learns the policies
        for subject, stored in self.all():
            _send(link, subject, stored)
        link.notify(LEARNED)
        self._views.append(link)
        link.when_ended(partial(self._views.remove, link))

    def learn(self, subject: Subject, stored: StoredPolicies | None) -> None:
        """Keep in memory, and send, the stored values; None if the subject was deleted."""
        super().learn(subject, stored)
        for link in list(self._views):  # sending may end a link, which leaves them
            _send(link, subject, stored)  # promise: a changed policy is sent to the workers


def _send(link: Link, subject: Subject, stored: StoredPolicies | None) -> None:
    values = None if stored is None else (stored.key, stored.values)
    link.notify(LEARN, str(subject), values)


class Learning:
    """Keeps a view up to date, over the links to successive owners of the policies."""

    def __init__(self, view: PolicyView) -> None:
        self._view = view

    def serve(self, link: Link) -> None:
        """Learn from an owner; call it before the link is connected."""
        told: set[Subject] | None = set()  # None when everything has been told once

        def learn(name: str, values: tuple[str, dict[str, Any]] | None) -> None:
            subject = subject_named(name)
            if told is not None:
                told.add(subject)
            stored = None if values is None else StoredPolicies(*values, version=None)
            self._view.learn(subject, stored)

        def learned() -> None:
            nonlocal told
            for subject, _ in list(self._view.all()):
                if told is not None and subject not in told:
                    # promise: policies that were deleted while their owner was replaced are
                    #   forgotten
                    self._view.learn(subject, None)
            told = None

        link.serve({LEARN: learn, LEARNED: learned})
