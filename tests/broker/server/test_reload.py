"""What a reload changes in the settings of a running broker."""

import logging
from dataclasses import replace

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.config.changes import with_reloaded
from magnetar_broker.config.load import ConfigError, Loaded
from magnetar_broker.server.reload import reloaded


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_what_is_reloadable_changes_and_the_rest_is_named(caplog: pytest.LogCaptureFixture) -> None:
    running = Settings(cluster_name="one", keep_alive_interval_seconds=30)
    read = Settings(
        cluster_name="two", keep_alive_interval_seconds=60, advertised_address="localhost"
    )
    changed = reloaded(lambda: Loaded(read, ["a doubt"]), running)
    assert with_reloaded(running, changed) == replace(running, keep_alive_interval_seconds=60)
    assert caplog.messages == [
        "a doubt",
        "reload: advertisedAddress is blank, and needs a restart of the broker to become localhost",
        "reload: clusterName is one, and needs a restart of the broker to become two",
        "reload: keepAliveIntervalSeconds is 30, and becomes 60",
    ]


@pytest.mark.parametrize("read", [Settings(), Settings(cluster_name="two")])
def test_nothing_changes_if_nothing_reloadable_did(
    read: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    assert reloaded(lambda: Loaded(read, []), Settings()) == {}
    assert caplog.messages[-1] == "reload: no setting has changed that a reload changes"


def test_a_configuration_that_cannot_be_used_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read() -> Loaded:
        raise ConfigError("broker.conf:1: webServicePort=x: expected a port")

    assert reloaded(read, Settings()) == {}
    assert "broker.conf:1: webServicePort=x" in caplog.text
