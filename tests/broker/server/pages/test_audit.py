"""The audit log: the requests in it, and their number."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admin_http import Admin
from fakes.world import ManualClock
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.pages.audit import AuditLog
from running_broker import RunningBroker

DONE, SHOWN = Response(status=204), Response(b"[]")
FORBIDDEN, MISSING = refusal(403, "you may not"), refusal(404, "there is no such topic")
HERE = {"adminRoles": [], "allowedClusters": ["standalone"]}
MakeBroker = Callable[..., RunningBroker]


def request(path: str = "/admin/v2/tenants/t", method: str = "PUT") -> Request:
    pairs = [("force", "true")]
    return Request(method, path, {}, {}, b"", 8080, pairs=pairs, address="127.0.0.1:7")


class Written:
    """The lines of the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, logger="magnetar.audit")
        self._caplog = caplog

    @property
    def lines(self) -> list[dict[str, Any]]:
        records = [one for one in self._caplog.records if one.name == "magnetar.audit"]
        return [json.loads(record.getMessage()) for record in records]


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture) -> Written:
    return Written(caplog)


# Contents -------------------------------------------------------------------------------


def test_a_change_is_written_with_who_and_what(written: Written) -> None:
    AuditLog(ManualClock(), 5).record(request(), True, DONE)
    assert written.lines == [
        {
            "time": "2023-11-14T22:13:20.000+00:00",
            "method": "PUT",
            "path": "/admin/v2/tenants/t",
            "query": "force=true",
            "address": "127.0.0.1:7",
            "role": None,
            "status": 204,
        }
    ]


def test_a_refused_change_has_its_reason(written: Written) -> None:
    AuditLog(ManualClock(), 5).record(request(), True, MISSING)
    (line,) = written.lines
    assert (line["status"], line["reason"]) == (404, "there is no such topic")


def test_a_change_that_was_given_up_is_written_without_a_status(written: Written) -> None:
    AuditLog(ManualClock(), 5).record(request(), True, None)
    (line,) = written.lines
    assert line["status"] is None


@pytest.mark.parametrize(
    ("response", "lines"),
    [(SHOWN, 0), (MISSING, 0), (None, 0), (FORBIDDEN, 1), (refusal(401, "who"), 1)],
)
def test_reads_are_written_only_without_permission(
    written: Written, response: Response | None, lines: int
) -> None:
    AuditLog(ManualClock(), 5).record(request(method="GET"), False, response)
    assert len(written.lines) == lines


def test_a_request_cannot_forge_a_line(written: Written) -> None:
    audit = AuditLog(ManualClock(), 5)
    audit.record(request('/x\n{"status": 204}'), True, refusal(404, 'no\n{"status": 204}'))
    (line,) = written.lines
    assert line["reason"] == 'no\n{"status": 204}'


def test_what_is_long_is_cut(written: Written) -> None:
    AuditLog(ManualClock(), 5).record(request("/x" * 10_000), True, refusal(404, "x" * 10_000))
    (line,) = written.lines
    assert len(line["path"]) == len(line["reason"]) == 1000


# Number of lines ------------------------------------------------------------------------


def test_refusals_are_limited_and_counted(written: Written) -> None:
    clock = ManualClock()
    audit = AuditLog(clock, 2)
    for _ in range(5):
        audit.record(request(), True, FORBIDDEN)
    assert len(written.lines) == 2
    clock.advance(1)
    assert written.lines[2]["refusals_left_out"] == 3
    audit.record(request(), True, FORBIDDEN)
    assert written.lines[3]["status"] == 403


def test_changes_are_never_left_out(written: Written) -> None:
    audit = AuditLog(ManualClock(), 1)
    for _ in range(5):
        audit.record(request(), True, FORBIDDEN)
        audit.record(request(), True, DONE)
    assert [line["status"] for line in written.lines] == [403, 204, 204, 204, 204, 204]


def test_the_end_tells_what_was_left_out(written: Written) -> None:
    audit = AuditLog(ManualClock(), 1)
    for _ in range(3):
        audit.record(request(), True, FORBIDDEN)
    audit.close()
    assert written.lines[-1]["refusals_left_out"] == 2


# With a running broker ------------------------------------------------------------------


def test_a_get_that_can_change_something_is_written(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    file = tmp_path / "audit.log"
    creates = {"allowAutoTopicCreationType": "partitioned"}
    admin = Admin(make_broker(magnetarAuditLogFile=str(file), **creates))
    path = "persistent/public/default/t/partitions"
    for query in ("?checkAllowAutoCreation=true", "?checkAllowAutoCreation=false", ""):
        assert admin.get(path + query).status == 200
    assert admin.get("brokers/backlog-quota-check").status == 204
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["method"], line["query"], line["status"]) for line in lines] == [
        ("GET", "checkAllowAutoCreation=true", 200),
        ("GET", "", 204),
    ]


def test_a_broker_writes_each_change_once(make_broker: MakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    admin = Admin(make_broker(magnetarAuditLogFile=str(file)))
    admin.put("tenants/audited", HERE)
    admin.get("tenants/audited")
    admin.post("schemas/public/default/t/compatibility", {"type": "STRING", "schema": ""})
    admin.delete("tenants/absent")
    admin.put("no/such/path")
    moved = file.rename(tmp_path / "audit.log.1")
    admin.delete("tenants/audited")
    lines = [json.loads(line) for path in (moved, file) for line in path.read_text().splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("PUT", "/admin/v2/tenants/audited", 204),
        ("DELETE", "/admin/v2/tenants/absent", 404),
        ("PUT", "/admin/v2/no/such/path", 404),
        ("DELETE", "/admin/v2/tenants/audited", 204),
    ]
    assert all(line["address"].startswith("127.0.0.1:") for line in lines)


def test_without_a_file_it_is_in_the_log_of_the_broker(make_broker: MakeBroker) -> None:
    broker = make_broker()
    Admin(broker).put("tenants/audited", HERE)
    assert '"path": "/admin/v2/tenants/audited"' in broker.log
