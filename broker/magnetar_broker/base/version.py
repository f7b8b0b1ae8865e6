"""The version of this broker, and the name it sends to clients."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("magnetar")
SERVER_VERSION: Final = f"Magnetar {VERSION}"
