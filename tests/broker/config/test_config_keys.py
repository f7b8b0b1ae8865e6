"""Keys that are known but ignored: values for which no warning is logged."""

import pytest

from magnetar_broker.config.keys import COMPATIBLE, NOT_BUILT, UNSAFE, UnsupportedKey

KNOWN = UnsupportedKey("lid", frozenset({"1.0", "noop"}), "a reason")


@pytest.mark.parametrize("value", ["", "1.0", "NoOp", "org.apache.pulsar.broker.x.Noop"])
def test_quiet(value: str) -> None:
    assert KNOWN.is_quiet(value)


@pytest.mark.parametrize("value", ["1", "0", "com.example.Noop", "org.apache.pulsar.Other"])
def test_not_quiet(value: str) -> None:
    assert not KNOWN.is_quiet(value)


def test_lists_of_classes_are_compared_without_packages() -> None:
    checkers = ",".join(
        f"org.apache.pulsar.broker.service.schema.{kind}SchemaCompatibilityCheck"
        for kind in ("Json", "Avro", "ProtobufNative")
    )
    assert COMPATIBLE["schemaRegistryCompatibilityCheckers"].is_quiet(checkers)


def test_the_tables_hold_what_pulsar_ships() -> None:
    assert len(COMPATIBLE) > 300
    assert COMPATIBLE["managedLedgerDefaultEnsembleSize"].quiet == {"1", "2"}
    assert COMPATIBLE["managedLedgerDefaultMarkDeleteRateLimit"].quiet == {"1.0", "0.1"}
    assert NOT_BUILT["webSocketServiceEnabled"].quiet == {"false"}
    assert COMPATIBLE["loadBalancerDebugModeEnabled"].dynamic
    assert not COMPATIBLE["managedLedgerDefaultEnsembleSize"].dynamic


def test_nothing_unsafe_can_be_changed_at_run_time() -> None:
    assert not any(known.dynamic for known in UNSAFE.values())


def test_nothing_unsafe_is_quiet_unless_it_is_off_or_what_there_is() -> None:
    for known in UNSAFE.values():
        assert known.quiet in ({"false"}, {""}, {"pulsarauthorizationprovider"}), known.name
