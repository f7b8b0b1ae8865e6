"""Connections before they are accepted: how long, and how many of them."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.world import ManualClock
from magnetar_broker.base.errors import NotAllowed
from magnetar_broker.base.rare_log import LOG_SECONDS
from magnetar_broker.config import Settings
from magnetar_broker.limits.admission import Admission, AdmittedConnection
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits


class Port:
    """Clients connect to it; `ended` are those that it has disconnected."""

    def __init__(self, **settings: Any) -> None:
        self.settings = replace(Settings(), **settings)
        self.clock = ManualClock()
        self.reached = ReachedLimits(self.clock)
        self.admission = Admission(lambda: self.settings, self.clock, self.reached)
        self.ended: list[str] = []

    def enter(self, host: str, name: str = "") -> AdmittedConnection:
        return self.admission.enter(host, lambda: self.ended.append(name or host))

    def counted(self) -> dict[str, int]:
        return {limit: number for limit, number in self.reached.counts.items() if number}


def test_a_handshake_has_its_time_whatever_arrives() -> None:
    port = Port(magnetar_handshake_timeout_seconds=10)
    early, late = port.enter("a", "early"), port.enter("b", "late")
    port.clock.advance(9)
    early.accept()
    assert port.ended == [] and port.admission.half_open == 1
    port.clock.advance(1)
    assert port.ended == ["late"] and port.admission.half_open == 0
    assert port.counted() == {ClientLimit.HANDSHAKE: 1}
    late.leave()  # its connection is closed in the end
    late.accept()
    assert (port.admission.accepted, port.admission.half_open) == (1, 0)


def test_a_stage_of_the_handshake_takes_the_place_of_the_one_before_it_with_its_time() -> None:
    port = Port(
        magnetar_handshake_timeout_seconds=10, magnetar_max_unauthenticated_connections_per_ip=1
    )
    place = port.enter("a", "handshake")
    port.clock.advance(9)
    place.take_over(lambda: port.ended.append("session"))
    assert place.is_taken_over and port.admission.half_open == 1
    port.clock.advance(1)
    assert port.ended == ["session"] and port.admission.half_open == 0


def test_who_waits_for_another_process_is_not_ended_by_the_time_of_a_handshake() -> None:
    port = Port(magnetar_handshake_timeout_seconds=10)
    port.admission.enter("a", lambda: port.ended.append("a"), is_timed=False)
    port.clock.advance(1000)
    assert port.ended == [] and port.admission.half_open == 1


def test_without_a_limit_of_time_a_handshake_may_take_any() -> None:
    port = Port(magnetar_handshake_timeout_seconds=0)
    port.enter("a")
    port.clock.advance(1e6)
    assert port.ended == []


def test_one_too_many_of_an_address_takes_the_place_of_its_oldest() -> None:
    port = Port(magnetar_max_unauthenticated_connections_per_ip=2)
    port.enter("b", "other")
    places = [port.enter("a", f"{number}") for number in range(2)]
    places[0].accept()
    port.enter("a", "2")
    assert port.ended == []
    port.enter("a", "3")
    assert port.ended == ["1"]
    assert port.counted() == {ClientLimit.HALF_OPEN_OF_ADDRESS: 1}


def test_one_too_many_in_all_takes_the_place_of_the_oldest_of_who_has_most() -> None:
    port = Port(magnetar_max_unauthenticated_connections=4)
    port.enter("honest", "honest")
    for number in range(3):
        port.enter("many", f"many {number}")
    port.enter("new")
    port.enter("newer")
    assert port.ended == ["many 0", "many 1"]
    assert port.counted() == {ClientLimit.HALF_OPEN: 2}
    assert port.admission.half_open == 4


def test_limits_that_change_apply_to_the_next() -> None:
    port = Port()
    for _ in range(3):
        port.enter("a")
    port.settings = replace(port.settings, magnetar_max_unauthenticated_connections_per_ip=1)
    port.enter("a")
    assert len(port.ended) == 1  # no more than is needed for the new one's place: as others leave


@pytest.mark.parametrize(
    ("setting", "limit", "other_address_is_refused"),
    [
        ("broker_max_connections", ClientLimit.CONNECTIONS, True),
        ("broker_max_connections_per_ip", ClientLimit.CONNECTIONS_OF_ADDRESS, False),
    ],
)
def test_accepted_connections_have_a_limit_that_others_do_not_use_up(
    setting: str, limit: ClientLimit, other_address_is_refused: bool
) -> None:
    port = Port(**{setting: 2})
    for _ in range(5):
        port.enter("a")
    first = port.enter("a")
    for place in (first, port.enter("a")):
        assert port.admission.refusal("a") is None
        place.accept()
    assert isinstance(port.admission.refusal("a"), NotAllowed)
    assert (port.admission.refusal("b") is not None) == other_address_is_refused
    assert port.reached.counts[limit] == 1 + other_address_is_refused
    first.leave()
    first.leave()
    assert port.admission.refusal("a") is None


def test_nothing_is_kept_of_addresses_that_have_left() -> None:
    port = Port()
    for number in range(100):
        place = port.enter(f"{number}")
        if number % 2:
            place.accept()
        place.leave()
    assert port.admission.accepted == port.admission.half_open == 0
    assert not vars(port.admission)["_half_open_from"]
    assert not vars(port.admission)["_accepted_from"]


def test_a_flood_is_two_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(
        magnetar_max_unauthenticated_connections_per_ip=1, magnetar_handshake_timeout_seconds=0
    )
    for _ in range(1000):
        port.enter("a")
    (line,) = caplog.messages
    assert "a: " in line and "magnetarMaxUnauthenticatedConnectionsPerIp" in line
    port.clock.advance(LOG_SECONDS)
    assert "998 more in the last" in caplog.messages[1]
    caplog.clear()
    port.enter("a")
    assert any("magnetarMaxUnauthenticatedConnectionsPerIp" in one for one in caplog.messages)


def test_addresses_of_one_ipv6_network_count_together() -> None:
    port = Port(magnetar_max_unauthenticated_connections_per_ip=2, broker_max_connections_per_ip=2)
    own = [port.enter(f"2001:db8::{number}") for number in range(3)]
    port.enter("2001:db8:0:1::1")
    assert port.ended == ["2001:db8::0"]
    for place in own[1:]:
        place.accept()
    assert port.admission.refusal(port.enter("2001:db8::9").host) is not None
    assert port.admission.refusal(port.enter("2001:db8:0:1::9").host) is None
