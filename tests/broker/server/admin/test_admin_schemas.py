"""Schemas over HTTP, beyond the recorded traces."""

from admin_http import Admin
from running_broker import RunningBroker


def test_what_is_no_version(broker: RunningBroker) -> None:
    admin, path = Admin(broker), "schemas/public/default/none/schema"
    for version in ("--5", "-", "5-", "x", "1.0"):
        answer = admin.get(f"{path}/{version}")
        assert answer.status == 400 and "expected a whole number" in answer.reason
    for version in ("-5", "5", "9" * 50):
        assert admin.get(f"{path}/{version}").status == 404
