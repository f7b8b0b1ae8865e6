"""The findings of `magnetar doctor` on a page of metrics."""

import time

from magnetar_broker.commands.checks.metrics import of_page

QUIET = """\
# TYPE magnetar_subscription_stalled gauge
magnetar_subscription_stalled{cluster="standalone",blocker="reading"} 0
magnetar_subscription_stalled{cluster="standalone",blocker="damage"} 0
"""


def blocked(blocker: str, *subscriptions: str) -> str:
    topic = 'cluster="standalone",namespace="public/default",topic="persistent://public/default/t"'
    return "".join(
        f'magnetar_subscription_blocker{{{topic},subscription="{name}",blocker="{blocker}"}} 1\n'
        for name in subscriptions
    )


def found(page: str) -> list[tuple[str, str, str]]:
    return [(one.level, one.subject, one.text) for one in of_page(page)]


def test_nothing_stands_still() -> None:
    page = QUIET + blocked("caught_up", "s")
    assert found(page) == [("ok", "subscriptions", "none is stalled")]


def test_stalled_subscriptions_are_named_with_their_reason() -> None:
    page = QUIET.replace('"reading"} 0', '"reading"} 4') + blocked("reading", "a", "b", "c", "d")
    ((level, subject, text),) = found(page + blocked("caught_up", "e"))
    assert (level, subject) == ("warning", "subscriptions")
    assert text.startswith("4 stalled (reading): a of persistent://public/default/t, b of ")
    assert text.endswith("c of persistent://public/default/t and 1 others")


def test_damage_that_no_subscription_has_reached_is_an_error() -> None:
    page = QUIET + 'magnetar_damaged_entries{cluster="standalone"} 2\n'
    assert ("error", "damage", "2 stored entries cannot be read") in found(page)
    assert found(page.replace("} 2\n", "} 0\n")) == [("ok", "subscriptions", "none is stalled")]


def test_damage_is_an_error() -> None:
    page = QUIET.replace('"damage"} 0', '"damage"} 1.0') + blocked("damage", "a")
    ((level, subject, text),) = found(page)
    assert (level, subject) == ("error", "damage")
    assert "1 stalled (damage): a of persistent://public/default/t" in text


def test_the_certificate_that_is_in_use() -> None:
    def expiring_in(days: float) -> str:
        at = time.time() + days * 86_400
        name = "magnetar_tls_certificate_expiry_timestamp_seconds"
        return f'{QUIET}{name}{{cluster="standalone"}} {at}\n'

    assert len(found(expiring_in(90))) == 1
    assert ("warning", "TLS", "the certificate in use expires in 9 days") in found(expiring_in(9.5))
    assert ("error", "TLS", "the certificate in use has expired") in found(expiring_in(-1))
