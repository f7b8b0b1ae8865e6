"""The users who can read the files with secrets."""

from collections.abc import Iterator

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.server.data_directory.file_permissions import exposed_secrets

SUBJECT = "permissions"


def check(settings: Settings) -> Iterator[Finding]:
    """Yield the warnings about files with secrets that a start logs, too."""
    for text, remedy in exposed_secrets(settings):
        yield Finding("warning", SUBJECT, text, remedy)
