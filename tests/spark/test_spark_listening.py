"""What the listener prints."""

import json

import pytest

from pyspark_magnetar.listening import backlog_line


def test_the_backlog_of_a_report() -> None:
    partitions = {"a": 10, "b": 30}
    backlog = {"entries": 4, "msgs": 40, "bytes": 400, "partitions": partitions}
    line = backlog_line(json.dumps({"v": 1, "p": {}, "backlog": backlog}))
    assert line == (
        "40 messages in 4 entries (400 bytes) behind the latest; by partition at most 30, at "
        "least 10, on average 20.0"
    )
    backlog["partitions"] = {}
    line = backlog_line(json.dumps({"backlog": backlog}))
    assert line == "nothing behind the latest message"


@pytest.mark.parametrize("offset", [None, "", "7", "{}", "null", "[]"])
def test_offsets_of_other_sources_are_left_out(offset: str | None) -> None:
    assert backlog_line(offset) is None
