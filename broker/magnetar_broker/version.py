"""What this broker calls itself."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("magnetar")
SERVER_VERSION: Final = f"Magnetar {VERSION}"
