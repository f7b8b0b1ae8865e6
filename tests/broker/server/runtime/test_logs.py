"""The log: text chosen by clients stays on its line."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from admin_http import Admin
from magnetar_broker.server.runtime.logs import OneLine, log_to_stderr
from running_broker import RunningBroker

FORGED = "2026-01-01 00:00:00,000 ERROR magnetar: forged"


def written(message: str, error: Exception | None = None) -> str:
    info = None
    if error is not None:
        try:
            raise error
        except type(error):
            info = sys.exc_info()
    record = logging.LogRecord("magnetar", logging.INFO, __file__, 1, "%s", (message,), info)
    return OneLine("%(levelname)s %(message)s").format(record)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, and über", "plain, and über"),
        ("two\nlines", "two\\nlines"),
        ("two\r\nlines\tand a tab", "two\\r\\nlines\\tand a tab"),
        ("\x1b[2J\x9b", "\\x1b[2J\\x9b"),
        ("\u2028\u2029\x85", "\\u2028\\u2029\\x85"),
    ],
)
def test_a_message_is_one_line_without_control_characters(text: str, expected: str) -> None:
    assert written(text) == f"INFO {expected}"


def test_the_lines_of_a_traceback_are_indented() -> None:
    first, *others = written("failed", ValueError(f"a\n{FORGED}\r\x1b[2J")).split("\n")
    assert first == "INFO failed"
    assert all(line.startswith("  ") for line in others)
    assert others[-1] == f"  {FORGED}\\r\\x1b[2J"


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, which has its handlers and its level again after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(("process", "named"), [("worker-1", "INFO worker-1 x"), (None, "INFO x")])
def test_a_line_names_the_process_if_there_are_several(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str], process: str, named: str
) -> None:
    log_to_stderr(process)
    logging.getLogger("x").info("a message of a %s", "client")
    logging.getLogger("x").debug("not shown")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f" {named}: a message of a client")


def test_names_that_clients_choose_begin_no_line(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path / "data").start()
    try:
        path = "persistent/public/default/a%0A" + quote(FORGED)
        admin = Admin(broker)
        assert admin.put(path).status == 204
        assert admin.post(f"{path}/replication", ["standalone"]).status == 204
        broker.stop()
        assert FORGED in broker.log
        assert not [line for line in broker.log.splitlines() if line.startswith(FORGED)]
    finally:
        broker.close()
