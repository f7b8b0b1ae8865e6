"""The OpenAPI description of the routes."""

import json
from itertools import chain

from magnetar_broker.policies.table import TABLE
from magnetar_broker.server.admin.openapi import described, is_alias, path_of
from magnetar_broker.server.admin.policies.json_schema import schema_of
from magnetar_broker.server.admin.routes import ROUTES

DESCRIPTION = json.loads(json.dumps(described(ROUTES.routes)))
OPERATIONS = list(chain.from_iterable(item.values() for item in DESCRIPTION["paths"].values()))


def test_every_route_is_described_once() -> None:
    endpoints = [endpoint for endpoint, _ in ROUTES.routes if not is_alias(endpoint)]
    assert len(OPERATIONS) == len(endpoints)
    for endpoint in endpoints:
        operation = DESCRIPTION["paths"][path_of(endpoint)][endpoint.method.lower()]
        assert operation["x-permission"] == endpoint.permission.text
        assert {str(status) for status in endpoint.succeeds_with} <= operation["responses"].keys()


def test_an_alias_differs_from_a_route_by_its_slash() -> None:
    endpoints = [endpoint for endpoint, _ in ROUTES.routes]
    patterns = {(endpoint.method, endpoint.pattern) for endpoint in endpoints}
    for endpoint in filter(is_alias, endpoints):
        assert (endpoint.method, endpoint.pattern.rstrip("/")) in patterns


def test_operations_have_names_of_their_own_and_texts() -> None:
    names = {operation["operationId"] for operation in OPERATIONS}
    assert len(names) == len(OPERATIONS)
    assert all(operation["summary"].endswith((".", "`.")) for operation in OPERATIONS)


def test_the_parameters_of_a_path_are_declared() -> None:
    for path, item in DESCRIPTION["paths"].items():
        for operation in item.values():
            declared = {
                parameter["name"]
                for parameter in operation["parameters"]
                if parameter["in"] == "path"
            }
            assert {f"{{{name}}}" for name in declared} == {
                part for part in path.split("/") if part.startswith("{")
            }


def test_every_policy_has_a_schema_that_its_own_values_fit() -> None:
    for policy in TABLE.values():
        assert schema_of(policy.codec)["type"]
