"""What `magnetar --version` prints."""

from importlib.metadata import version

from click.testing import CliRunner

import magnetar_proto.frames
from magnetar.cli import main


def test_the_version_states_whether_it_is_compiled() -> None:
    compiled = not magnetar_proto.frames.__file__.endswith(".py")
    printed = CliRunner().invoke(main, ["--version"], prog_name="magnetar").output
    kind = "compiled" if compiled else "pure Python"
    assert printed == f"magnetar, version {version('magnetar')} ({kind})\n"
