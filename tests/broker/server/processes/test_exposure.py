"""A broker without authentication serves this machine only, unless it is configured otherwise."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import credentials
from magnetar.cli import main
from magnetar_broker.config.exposure import refused_exposure
from magnetar_broker.config.load import load
from magnetar_broker.config.settings import Settings
from magnetar_broker.server.processes.banner import access_of
from ports import free_ports
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]


@pytest.mark.parametrize(
    ("settings", "is_refused", "access"),
    [
        (Settings(), False, "this machine, without authentication"),
        (Settings(bind_address="::1"), False, "this machine, without"),
        (Settings(bind_address="0.0.0.0"), True, "EVERYONE, without"),
        (Settings(bind_address="::"), True, "EVERYONE, without"),
        (Settings(bind_address="192.0.2.1"), True, "EVERYONE, without"),
        (
            Settings(bind_address="0.0.0.0", allow_unauthenticated_bind=True),
            False,
            "EVERYONE, without",
        ),
        (
            Settings(
                bind_address="0.0.0.0",
                authentication_enabled=True,
                authentication_providers=(
                    "token",
                    "org.apache.pulsar.broker.authentication.AuthenticationProviderTls",
                    "AuthenticationProviderOpenID",
                ),
            ),
            False,
            "with authentication: token, tls, oidc",
        ),
    ],
)
def test_who_may_connect(settings: Settings, is_refused: bool, access: str) -> None:
    assert (refused_exposure(settings, "here") is not None) is is_refused
    assert access_of(settings).startswith(access)


def test_the_refusal_names_the_line_and_what_to_do(tmp_path: Path) -> None:
    conf = tmp_path / "standalone.conf"
    conf.write_text("clusterName=c\nbindAddress=0.0.0.0\n")
    why = refused_exposure(load(str(conf), {}, {}).settings, "this.host")
    assert why is not None and why.startswith(f"{conf}:2: bindAddress=0.0.0.0: ")
    assert "\n  magnetar init --secure --host this.host magnetar-secure\n" in why
    assert "\n  magnetar standalone --conf magnetar-secure/broker.conf\n" in why
    assert "--insecure-public-bind" in why and "magnetarAllowUnauthenticatedBind=true" in why


@pytest.mark.parametrize("command", ["standalone", "doctor"])
def test_it_does_not_start(command: str, tmp_path: Path) -> None:
    conf, data = tmp_path / "standalone.conf", tmp_path / "data"
    conf.write_text("bindAddress=0.0.0.0\n")
    words = [command, "--conf", str(conf), "--data-dir", str(data)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert f"init --secure --host {socket.gethostname()}" in result.output
    assert not data.exists()


@pytest.mark.parametrize("workers", ["1", "3"])
def test_it_starts_when_it_is_meant(make_broker: MakeBroker, tmp_path: Path, workers: str) -> None:
    public = {"bindAddress": "0.0.0.0", "advertisedAddress": "127.0.0.1"}
    open_broker = make_broker(
        **public, magnetarAllowUnauthenticatedBind="true", magnetarWorkers=workers
    )
    assert "  access      EVERYONE, without authentication" in open_broker.banner
    assert "anyone who can connect to this machine can read" in open_broker.log
    closed = make_broker(**public, **credentials.settings(tmp_path), magnetarWorkers=workers)
    assert "  access      with authentication: token, basic\n" in closed.banner
    assert "anyone who can connect" not in closed.log


def test_the_flag(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker()
    assert "  access      this machine, without authentication" in broker.banner
    port, http_port = free_ports(2)
    words = ["standalone", "--bind", "0.0.0.0", "--port", str(port), "--http-port", str(http_port),
             "--data-dir", str(broker.data_dir), "--insecure-public-bind"]  # fmt: skip
    # What prevents this start is the data directory, which the broker above holds.
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "init --secure" in result.output) == (1, False)
    assert "in use" in result.output or "lock" in result.output
