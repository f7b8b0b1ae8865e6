"""File permissions: the broker's files that other users of the machine can read."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.server.data_directory.file_permissions import protect_files
from raw_client import RawClient
from running_broker import RunningBroker

GCS_KEY_FILE = "gcs_managed_ledger_offload_service_account_key_file"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("before", "after"), [(0o777, 0o750), (0o755, 0o750), (0o750, 0o750), (0o700, 0o700)]
)
def test_a_data_directory_is_for_its_user_and_at_most_read_by_its_group(
    tmp_path: Path, before: int, after: int
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(before)
    assert protect_files(replace(Settings(), data_dir=str(data))) == []
    assert mode(data) == after


def test_what_is_created_from_then_on_is_private(tmp_path: Path) -> None:
    protect_files(replace(Settings(), data_dir=str(tmp_path / "none")))
    made = tmp_path / "file"
    made.write_text("")
    assert mode(made) == 0o600


@pytest.mark.parametrize("field", ["token_secret_key", "basic_auth_conf", GCS_KEY_FILE])
@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_files_with_secrets_that_everyone_can_read_are_warned_about(
    tmp_path: Path, field: str, form: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not show this")
    changed: dict[str, Any] = {field: form.format(secret)}
    settings = replace(Settings(), data_dir=str(tmp_path / "none"), **changed)
    secret.chmod(0o640)
    assert protect_files(settings) == []
    secret.chmod(0o644)
    (warning,) = protect_files(settings)
    assert str(secret) in warning and "chmod" in warning and "do not show" not in warning


def test_a_secret_in_the_setting_itself_is_no_file(tmp_path: Path) -> None:
    for text in ("data:;base64,c2VjcmV0", "c2VjcmV0"):
        settings = replace(Settings(), data_dir=str(tmp_path / "none"), token_secret_key=text)
        assert protect_files(settings) == []


def test_everything_that_a_broker_writes_is_its_user_s_alone(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker()
    with RawClient.of_topic(broker.port, topic) as client:
        client.produce(topic)
        client.publish(0, b"payload")
    broker.stop()
    paths = [broker.data_dir, *broker.data_dir.rglob("*")]
    assert len(paths) > 3
    for path in paths:
        assert not mode(path) & (stat.S_IRWXG | stat.S_IRWXO) or path == broker.data_dir, path
    assert not mode(broker.data_dir) & stat.S_IRWXO
