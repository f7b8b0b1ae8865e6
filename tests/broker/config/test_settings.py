"""The declarations of settings: complete, consistent, and safe by default."""

import ast
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import magnetar_broker
from magnetar_broker.config.domains import Durability
from magnetar_broker.config.keys import COMPATIBLE, NOT_BUILT, UNSAFE
from magnetar_broker.config.load import interpret
from magnetar_broker.config.settings import KEYS, SECTIONS, Settings
from magnetar_broker.config.values import Blank, render


def test_every_field_has_one_key_of_its_own() -> None:
    assert set(KEYS) == {field.name for field in fields(Settings)} - {"origins"}
    assert len(KEYS) == sum(map(len, SECTIONS.values()))
    assert len({key.name for key in KEYS.values()}) == len(KEYS)


@pytest.mark.parametrize("field", KEYS)
def test_a_default_is_a_value_that_a_file_may_give(field: str) -> None:
    key, default = KEYS[field], getattr(Settings(), field)
    text = render(default)
    if text:
        assert key.kind.parse(text) == default
    else:
        assert default in (None, (), frozenset())
        assert key.blank is Blank.DEFAULT


def test_no_key_is_both_honoured_and_ignored() -> None:
    tables = [{key.name for key in KEYS.values()}, set(UNSAFE), set(NOT_BUILT), set(COMPATIBLE)]
    assert sum(map(len, tables)) == len(set[str]().union(*tables))


def test_names_of_fields_and_keys_agree() -> None:
    """A reader who knows one of them can find the other."""
    for field, key in KEYS.items():
        if not key.name.startswith("magnetar"):
            assert field.replace("_", "") == key.name.lower()


def test_defaults_are_durable_private_and_bounded() -> None:
    settings = Settings()
    assert settings.durability is Durability.FSYNC
    assert settings.binds_to_loopback
    assert settings.broker_max_connections > 0
    assert settings.max_producers_per_topic > 0
    assert settings.max_consumers_per_topic > 0
    assert settings.max_subscriptions_per_topic > 0
    assert settings.max_message_publish_buffer_size_in_mb > 0


def test_settings_do_not_change() -> None:
    settings = Settings()
    with pytest.raises(FrozenInstanceError):
        settings.data_dir = "elsewhere"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example.com", False),
    ],
)
def test_loopback(address: str, loopback: bool) -> None:
    assert Settings(bind_address=address).binds_to_loopback is loopback


def test_properties_are_read_back_as_the_same_settings() -> None:
    settings = Settings(
        web_service_port=None,
        durability=Durability.RELAXED,
        bootstrap_namespaces=("a/b", "c/d"),
        allow_auto_topic_creation=False,
    )
    values = {key.name: render(getattr(settings, field)) for field, key in KEYS.items()}
    text = "".join(f"{key}={value}\n" for key, value in values.items())
    assert interpret("test.conf", text, {}, {}) == (settings, [])


def test_only_workers_read_what_a_reload_changes() -> None:
    """The controller is not restarted: it would continue with the former value."""
    rooms = "session limits expiry subscriptions producers metrics compaction topic dispatch damage"
    of_data = "data_directory/parts.py data_directory/copies.py engine.py"
    files = f"{of_data} clients/listener.py processes/worker.py admin/operations"
    of_workers = (
        "config/",
        "commands/",  # processes of their own, that end soon
        *(f"{room}/" for room in rooms.split()),
        *("broker.py", "maintenance.py", "watchdog.py"),
        *(f"server/{file}" for file in files.split()),
    )
    reloadable = {field for field, key in KEYS.items() if key.of_workers}
    root, found = Path(magnetar_broker.__path__[0]), set()
    for path in root.rglob("*.py"):
        place = path.relative_to(root).as_posix()
        if place.startswith(of_workers):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in reloadable:
                found.add((node.attr, place))
            if isinstance(node, ast.Constant) and node.value in reloadable:
                found.add((str(node.value), place))
    assert found == set()
