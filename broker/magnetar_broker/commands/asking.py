"""Commands that ask a running broker.

The program `magnetar` gives such a command the options of `magnetar admin` for the address of the
broker and for credentials, and a function that sends requests with them.
"""

from typing import Any, Protocol

import click


class Ask(Protocol):
    """Sends a request to the admin API of a broker."""

    def __call__(
        self, url: str | None, path: str, method: str = "GET", timeout_s: float = 10.0
    ) -> Any:
        """Return the JSON of the answer, or its text if it is not JSON.

        Without a URL, the broker of client.conf is asked, or the one of this machine. Raises
        `click.ClickException`, with the reason and the remedy, if the request fails.
        """


class AskingCommand(click.Command):
    """A command whose function receives `admin_url`, None if it is not given, and `ask`."""

    asks_broker = True
    """The mark by which `magnetar` knows such a command."""
