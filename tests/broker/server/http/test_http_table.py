"""The route found for a method and a path."""

import pytest

from magnetar_broker.server.http.table import NoRoute, Route, Table
from magnetar_proto.admin.endpoint import OPEN, endpoint

TABLE = Table(
    [
        Route(endpoint("metrics", "GET /metrics", OPEN, ""), "metrics"),
        Route(endpoint("later", "GET /v2/{first}/{second}", OPEN, ""), "later"),
        Route(endpoint("get", "GET /v2/{kind:one|other}/{name}", OPEN, ""), "get"),
        Route(endpoint("put", "PUT /v2/{kind:one|other}/{name}", OPEN, ""), "put"),
        Route(endpoint("parts", "GET /v2/{kind:one|other}/{name}/parts", OPEN, ""), "parts"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "handler", "parameters"),
    [
        ("GET", "/metrics", "metrics", {}),
        ("HEAD", "/metrics", "metrics", {}),
        ("GET", "/%6Detrics", "metrics", {}),
        ("GET", "/v2/one/a", "get", {"kind": "one", "name": "a"}),
        ("PUT", "/v2/other/a", "put", {"kind": "other", "name": "a"}),
        ("GET", "/v2/one/a%2Fb%20+", "get", {"kind": "one", "name": "a%2Fb%20+"}),
        ("GET", "/v2/two/a", "later", {"first": "two", "second": "a"}),
        ("GET", "/v2/one/a/parts", "parts", {"kind": "one", "name": "a"}),
    ],
)
def test_the_most_exact_that_fits(
    method: str, path: str, handler: str, parameters: dict[str, str]
) -> None:
    route, found = TABLE.find(method, path)
    assert (route.handler, found) == (handler, parameters)


@pytest.mark.parametrize(
    "path", ["", "/", "/metrics/", "/other", "/v2/one/", "/v2//a", "/v2/one/a/b", "/v2/two/a/parts"]
)
def test_nothing_fits(path: str) -> None:
    with pytest.raises(NoRoute) as raised:
        TABLE.find("GET", path)
    assert raised.value.methods == set()


def test_another_method_would_fit() -> None:
    with pytest.raises(NoRoute) as raised:
        TABLE.find("DELETE", "/v2/one/a")
    assert raised.value.methods == {"GET", "PUT"}
