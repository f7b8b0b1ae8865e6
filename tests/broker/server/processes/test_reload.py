"""The effect of a reload on the settings of a running broker."""

import logging
from dataclasses import replace

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.config.changes import with_reloaded
from magnetar_broker.config.load import ConfigError, Loaded
from magnetar_broker.server.data_directory.shared_storage import LocalSharedStorage
from magnetar_broker.server.processes.multi_process import Prepared, Reload
from magnetar_broker.server.processes.reload import reloaded
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_broker.server.supervision.children import Context
from magnetar_storage.multi_store.belonging import Noted

PORTS = PortNumbers(6650, None, 8080, None)


class Unlocked:
    """A lock that locks no directory."""

    def close(self) -> None:
        """Do nothing."""


def prepared(settings: Settings) -> Prepared:
    storage = LocalSharedStorage(Unlocked(), Noted({}, is_used=False))
    return Prepared(settings, storage, PORTS)


def run(prepared: Prepared, context: Context) -> None:
    """Do nothing: no test starts this process."""


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_what_is_reloadable_changes_and_the_rest_is_named(caplog: pytest.LogCaptureFixture) -> None:
    running = Settings(cluster_name="one", keep_alive_interval_seconds=30)
    read = Settings(
        cluster_name="two", keep_alive_interval_seconds=60, advertised_address="localhost"
    )
    changed = reloaded(lambda: Loaded(read, ["a doubt"]), running)
    assert changed is not None
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
    assert Reload(lambda: Loaded(read, []), prepared(Settings()), run, run).changed() is None
    assert caplog.messages[-1] == "reload: no setting has changed that a reload changes"


def test_what_did_not_reach_all_workers_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """This holds even if the configuration is again as it was before."""
    read = [Settings(keep_alive_interval_seconds=60), Settings(), Settings()]
    reload = Reload(lambda: Loaded(read.pop(0), []), prepared(Settings()), run, run)
    first = reload.changed()
    assert first is not None
    assert first.values == {"keepAliveIntervalSeconds": ("60", "")}
    second = reload.changed()
    assert second is not None and second.values == {}
    assert caplog.messages[-1] == (
        "reload: the last one did not reach all workers; all are restarted"
    )
    reload.done()
    assert reload.changed() is None


def test_a_configuration_that_cannot_be_used_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read() -> Loaded:
        raise ConfigError("broker.conf:1: webServicePort=x: expected a port")

    assert reloaded(read, Settings()) is None
    assert "broker.conf:1: webServicePort=x" in caplog.text
