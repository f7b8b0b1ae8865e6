"""`magnetar.compat` has every name, argument and default of the official client, or names it."""

import enum
import inspect
import re
from pathlib import Path
from typing import Any

import pulsar
import pulsar.asyncio
import pulsar.schema
import pytest

import magnetar.compat
import magnetar.compat.schema

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "compat.md").read_text()
NOT_OF_THE_API = {
    "Callable", "List", "Optional", "Tuple", "Union", "logging", "re", "timedelta", "tableview",
}  # fmt: skip
"""Modules and types that the official module imports for itself."""
SCHEMA_MODULES = {"definition", "schema", "schema_avro", "schema_protobuf"}
UNSUPPORTED_CLASSES = (
    "AuthenticationAthenz", "AutoClusterFailover", "MessageBatch", "ServiceInfoProvider",
)  # fmt: skip


def listed(heading: str) -> set[str]:
    """The names in the first column of the table of docs/compat.md under this heading."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([\w.]+)", cell)}


def public(module: Any) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_")} - NOT_OF_THE_API


def test_every_name_is_there_or_listed_as_missing() -> None:
    missing = public(pulsar) - set(magnetar.compat.__all__)
    assert missing == {name for name in listed("Missing") if "." not in name}
    for name in missing:
        with pytest.raises(AttributeError, match=f"magnetar.compat has no {name}: "):
            getattr(magnetar.compat, name)
    assert public(pulsar.schema) - SCHEMA_MODULES <= set(magnetar.compat.schema.__all__)


def default_of(parameter: inspect.Parameter) -> object:
    """Something that both modules have the same of."""
    value = parameter.default
    if value is parameter.empty:
        return "none"
    if isinstance(value, enum.Enum) or hasattr(type(value), "__members__"):
        return value.name
    return value if isinstance(value, (int, str, type(None))) else type(value).__name__


def parameters(function: Any) -> list[tuple[str, object]]:
    return [
        (name, default_of(parameter))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    ]


def methods(cls: type) -> dict[str, Any]:
    found = {
        name: value
        for name, value in inspect.getmembers(cls)
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }
    return found | ({"__init__": vars(cls)["__init__"]} if "__init__" in vars(cls) else {})


CLASSES = sorted(
    name
    for name in public(pulsar) & set(magnetar.compat.__all__)
    if inspect.isclass(getattr(pulsar, name))
)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_same_methods_with_the_same_arguments(name: str) -> None:
    compare(name, getattr(pulsar, name), getattr(magnetar.compat, name))


@pytest.mark.parametrize("name", sorted(public(pulsar.schema) - SCHEMA_MODULES))
def test_schemas_have_the_same_methods_with_the_same_arguments(name: str) -> None:
    compare(name, getattr(pulsar.schema, name), getattr(magnetar.compat.schema, name))


def compare(name: str, theirs: Any, ours: Any) -> None:
    if issubclass(theirs, Exception):
        assert [cls.__name__ for cls in ours.__mro__] == [cls.__name__ for cls in theirs.__mro__]
        return
    if hasattr(theirs, "__members__"):
        numbers = {member: int(value) for member, value in theirs.__members__.items()}
        assert {member: int(value) for member, value in ours.__members__.items()} == numbers
        return
    if name in UNSUPPORTED_CLASSES:
        assert name in listed("Not supported")
    found = methods(ours)
    for method, value in methods(theirs).items():
        if name in UNSUPPORTED_CLASSES and method not in found:
            continue
        assert method in found, f"{name}.{method}"
        assert isinstance(found[method], property) == isinstance(value, property)
        if inspect.isfunction(value):
            assert parameters(found[method]) == parameters(value), f"{name}.{method}"


def test_the_version_on_the_page_is_the_one_that_was_compared() -> None:
    assert f"pulsar-client {'.'.join(pulsar.__version__.split('.')[:2])}" in PAGE


UNSUPPORTED = {
    "replication_clusters": ("send", ["other"]),
    "disable_replication": ("send", True),
    "replicate_subscription_state_enabled": ("subscribe", True),
}


def test_what_is_not_supported_is_refused_by_name() -> None:
    client = magnetar.compat.Client("pulsar://127.0.0.1:1")
    producer = magnetar.compat.Producer()
    producer._schema = magnetar.compat.schema.BytesSchema()
    calls: dict[str, Any] = {
        "send": lambda **option: producer.send(b"x", **option),
        "create_producer": lambda **option: client.create_producer("t", **option),
        "subscribe": lambda **option: client.subscribe("t", "s", **option),
    }
    for option, (call, value) in UNSUPPORTED.items():
        assert option in listed("Not supported")
        with pytest.raises(magnetar.compat.OperationNotSupported, match=option):
            calls[call](**{option: value})
    for name in UNSUPPORTED_CLASSES:
        cls = getattr(magnetar.compat, name)
        count = sum(one.default is one.empty for one in inspect.signature(cls).parameters.values())
        with pytest.raises(magnetar.compat.OperationNotSupported, match=name):
            cls(*["x"] * count)
    client.close()


def test_options_without_effect_are_told(caplog: pytest.LogCaptureFixture) -> None:
    for option in ("io_threads", "concurrent_lookup_requests", "stats_interval_in_seconds"):
        assert option in listed("Without effect")
        changed: dict[str, Any] = {option: 7}
        magnetar.compat.Client("pulsar://127.0.0.1:1", **changed).close()
        assert f"{option}=7 has no effect" in caplog.text
