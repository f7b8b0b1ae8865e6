"""Random requests for every route of a running broker, generated from its OpenAPI description.

`make fuzz-rest EXAMPLES=100000` sends more of them.
"""

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin_http import Admin
from broker.server.admin.described_requests import Described, operations_of, requests
from effort import examples
from magnetar_broker.server.admin.openapi import described
from magnetar_broker.server.admin.routes import ROUTES
from running_broker import RunningBroker

EXAMPLES = int(os.environ.get("REST_EXAMPLES", examples(3000)))
TIMEOUT_SECONDS = 60
MAX_ANSWER = 1 << 20
LIMITS = {
    "maxNumPartitionsPerPartitionedTopic": "8",
    "maxTenants": "20",
    "maxNamespacesPerTenant": "20",
    "maxTopicsPerNamespace": "200",
    "forceDeleteNamespaceAllowed": "true",
    "forceDeleteTenantAllowed": "true",
}
"""Limits that keep random requests from filling the broker."""
ENDING = {"/admin/v2/brokers/shutdown"}
"""Paths that are not called, because the broker would end."""
SETTING = "/admin/v2/brokers/configuration/"
"""The path of settings, which are not changed: some slow down everything else, as they should."""
OPERATIONS = [
    one
    for one in operations_of(described(ROUTES.routes))
    if one.path not in ENDING and not (one.path.startswith(SETTING) and one.method != "GET")
]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Start a broker with a few names, whose objects requests change at random."""
    broker = RunningBroker(tmp_path_factory.mktemp("fuzzed") / "data", **LIMITS).start()
    admin = Admin(broker)
    for namespace in ("fuzz/one", "fuzz/two"):
        admin.makes_namespace(namespace)
        admin.put(f"persistent/{namespace}/a")
        admin.put(f"persistent/{namespace}/b/partitions", 2)
        admin.put(f"persistent/{namespace}/a/subscription/s")
    try:
        yield broker
    finally:
        broker.close()


def test_the_description_that_is_served_is_that_of_the_table(fuzzed: RunningBroker) -> None:
    served = Admin(fuzzed).get("openapi.json").json
    assert served == json.loads(json.dumps(described(ROUTES.routes)))


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_every_request_is_answered_as_described(fuzzed: RunningBroker, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    request = data.draw(requests(operation))
    with closing(
        http.client.HTTPConnection("127.0.0.1", fuzzed.http_port, timeout=TIMEOUT_SECONDS)
    ) as web:
        web.request(request.method, request.target, request.body)
        answer = web.getresponse()
        _check(operation, answer.status, answer.read())


def _check(operation: Described, status: int, body: bytes) -> None:
    assert operation.allows(status), (status, body)
    assert status < 500 or status in (501, 503), (status, body)
    assert b"Traceback" not in body
    assert len(body) <= MAX_ANSWER
    if status >= 400:
        assert json.loads(body)["reason"].strip()


def test_the_broker_is_well_afterwards(fuzzed: RunningBroker) -> None:
    assert Admin(fuzzed).get("brokers/health").body == b"ok"
    log = Path(fuzzed.log_path).read_text()
    assert "defect" not in log
    assert "Traceback" not in log
