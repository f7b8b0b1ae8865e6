"""Requests of web pages in a browser on the broker's machine, or with a known password."""

import http.client
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import credentials
from credentials import PASSWORD, basic
from magnetar_broker.config.load import interpret
from magnetar_broker.server.http.messages import Refused, Request
from magnetar_broker.server.pages.web_pages import web_pages_of
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
LOCAL = "bindAddress=127.0.0.1\nadvertisedAddress=broker.test\n"
PUBLIC = "bindAddress=0.0.0.0\nmagnetarAllowUnauthenticatedBind=true\n"
SECURED = (
    "bindAddress=127.0.0.1\nauthenticationEnabled=true\nauthenticationProviders=token\n"
    f"tokenSecretKey={credentials.in_setting(credentials.SECRET)}\n"
)
VALUE = "/admin/v2/brokers/configuration/maxTenants/17"


def is_refused(conf: str, host: str, **headers: str) -> bool:
    pages = web_pages_of(interpret("test.conf", conf, {}, {})[0])
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | {"host": host}
    try:
        pages.check(Request("POST", "/", {}, sent, b"", 8080))
    except Refused as refusal:
        assert refusal.status == 403
        return True
    return False


@pytest.mark.parametrize("conf", [LOCAL, PUBLIC, SECURED])
def test_pages_of_other_sites_are_refused_everywhere(conf: str) -> None:
    host = "localhost:8080"
    assert not is_refused(conf, host)
    assert not is_refused(conf, host, origin=f"http://{host}")
    assert not is_refused(conf, host, origin=f"HTTP://{host.upper()}", sec_fetch_site="same-origin")
    for origin in (
        "http://evil.test",
        "http://evil.test:8080",
        "http://localhost:3000",
        "null",
        "",
    ):
        assert is_refused(conf, host, origin=origin), origin
    for site in ("cross-site", "same-site"):
        assert is_refused(conf, host, sec_fetch_site=site, sec_fetch_mode="no-cors")
        assert not is_refused(conf, host, sec_fetch_site=site, sec_fetch_mode="navigate")
    assert not is_refused(conf, host, sec_fetch_site="none", sec_fetch_mode="navigate")


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        ("localhost:8080", False),
        ("LOCALHOST", False),
        ("broker.localhost:8080", False),
        ("127.0.0.1:8080", False),
        ("[::1]:8080", False),
        ("192.0.2.1:8080", False),
        ("broker.test:8080", False),
        ("", False),
        ("evil.test:8080", True),
        ("localhost.evil.test", True),
        ("127.0.0.1.evil.test:8080", True),
        ("[::1:8080", True),
    ],
)
def test_names_that_lead_to_this_machine(host: str, refused: bool) -> None:
    assert is_refused(LOCAL, host) is refused
    assert not is_refused(PUBLIC, host)
    assert not is_refused(SECURED, host)


def ask(broker: RunningBroker, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, b"", named)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def values(broker: RunningBroker, **headers: str) -> object:
    return json.loads(ask(broker, "GET", "/admin/v2/brokers/configuration/values", **headers)[1])


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_page_changes_and_reads_nothing_of_an_open_broker(
    make_broker: MakeBroker, workers: str
) -> None:
    broker = make_broker(magnetarWorkers=workers)
    port = broker.http_port
    assert ask(broker, "POST", VALUE, Origin="http://evil.test")[0] == 403
    # A page under a name that its owner has resolved to this machine.
    evil = {"Host": f"evil.test:{port}", "Origin": f"http://evil.test:{port}"}
    assert ask(broker, "POST", VALUE, **evil)[0] == 403
    status, text = ask(broker, "GET", "/admin/v2/tenants", Host=evil["Host"])
    assert status == 403 and b"use localhost" in text
    assert ask(broker, "POST", "/admin/v2/brokers/shutdown", Origin="null")[0] == 403
    assert values(broker) == {}
    assert ask(broker, "POST", VALUE, Origin=f"http://127.0.0.1:{port}")[0] == 200
    assert values(broker) == {"maxTenants": "17"}


def test_a_page_cannot_use_the_password_of_another(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    known = {"Authorization": basic("alice", PASSWORD)}
    assert ask(broker, "POST", VALUE, Origin="http://evil.test", **known)[0] == 403
    assert values(broker, **known) == {}
    assert ask(broker, "POST", VALUE, Host="any.test", **known)[0] == 200
