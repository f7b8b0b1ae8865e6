"""The judge of the torture of names, policies and schemas: all losses are reported, no other."""

from collections.abc import Callable

import pytest

from crash.admin_books import (
    DROP,
    KEEP,
    Compacted,
    FamilyBook,
    LogBook,
    NamespaceBook,
    Schemas,
    SeenFamily,
    SeenLog,
    SeenNamespace,
    Span,
)

SENT = list(range(10, 20))
LATEST = [12, 13, 14, 10, 11]
"""Of each key, of those before 15."""


def book() -> NamespaceBook:
    """A topic that keeps everything, `red` needs what comes from 14 on, compacted up to 15."""
    log = LogBook(
        born=9,
        sent=list(SENT),
        places={number: (1, number) for number in SENT},
        subscriptions={"red": Span(14, 14)},
        compacted=Compacted(15, frozenset(LATEST)),
    )
    family = FamilyBook(0, {-1: log}, {"max_producers": 2})
    return NamespaceBook(
        True, {"retention": KEEP}, {"plain": family}, {"plain": Schemas(2, {0: "a", 1: "b"})}
    )


def seen() -> SeenNamespace:
    """All as the book has it."""
    of_namespace = {"retention": (KEEP, "namespace"), "max_producers": (10000, "broker")}
    of_topic = {"retention": (KEEP, "namespace"), "max_producers": (2, "topic")}
    view = sorted(LATEST) + SENT[5:]
    log = SeenLog(list(SENT), view, {"red": SENT[4:]}, False)
    family = SeenFamily(0, of_topic, {0: "a", 1: "b"}, 2, {-1: log})
    gone = SeenFamily(None, {}, {}, 0, {})
    return SeenNamespace(True, of_namespace, {"plain": family, "other": gone})


def log_of(one: SeenNamespace) -> SeenLog:
    return one.families["plain"].logs[-1]


def made_again(one: SeenNamespace) -> None:
    one.families["other"].partitions = 0


def without_policies(one: SeenNamespace) -> None:
    one.families["plain"].holds["max_producers"] = (10000, "broker")


def of_another_number(one: SeenNamespace) -> None:
    one.families["plain"].schemas = {0: "a", 2: "b"}


def kept(one: SeenNamespace) -> None:
    one.families["other"].schemas = {0: "a"}


def not_kept_to(one: SeenNamespace) -> None:
    one.families["plain"].producers = 4


def the_namespace(one: SeenNamespace) -> None:
    one.exists = False


def a_message(one: SeenNamespace) -> None:
    log_of(one).messages.remove(15)
    log_of(one).view.remove(15)


def a_strange_message(one: SeenNamespace) -> None:
    log_of(one).messages.append(99)


def an_ack(one: SeenNamespace) -> None:
    log_of(one).subscriptions["red"].insert(0, 13)


def a_delivery(one: SeenNamespace) -> None:
    log_of(one).subscriptions["red"].remove(16)


def a_subscription(one: SeenNamespace) -> None:
    log_of(one).subscriptions.clear()


def an_end(one: SeenNamespace) -> None:
    log_of(one).terminated = True


def a_compacted_key(one: SeenNamespace) -> None:
    log_of(one).view.remove(12)


def a_key_twice(one: SeenNamespace) -> None:
    log_of(one).view.insert(0, 7)


def what_follows(one: SeenNamespace) -> None:
    log_of(one).view.remove(17)


def test_all_is_well() -> None:
    assert not book().differences(seen())


@pytest.mark.parametrize(
    "spoil",
    [
        a_compacted_key, a_delivery, a_key_twice, a_message, a_strange_message, a_subscription,
        an_ack, an_end, kept, made_again, not_kept_to, of_another_number, without_policies,
        the_namespace, what_follows,
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported(spoil: Callable[[SeenNamespace], None]) -> None:
    spoiled = seen()
    spoil(spoiled)
    assert book().differences(spoiled)


def test_acknowledged_messages_may_be_deleted_where_they_are_not_retained() -> None:
    trimmed = seen()
    del log_of(trimmed).messages[:4]
    assert book().differences(trimmed)
    not_retained = book()
    not_retained.families["plain"].policies["retention"] = DROP
    trimmed.families["plain"].holds["retention"] = (DROP, "topic")
    assert not not_retained.differences(trimmed)
    del log_of(trimmed).messages[0]
    assert not_retained.differences(trimmed)


def test_what_has_no_receipt_may_be_there_or_not() -> None:
    unsure = book()
    log = unsure.families["plain"].logs[-1]
    del log.places[19]
    assert log.settled_to == 19
    without = seen()
    for numbers in (log_of(without).messages, log_of(without).view):
        numbers.remove(19)
    log_of(without).subscriptions["red"].remove(19)
    assert not unsure.differences(seen())
    assert not unsure.differences(without)


def test_what_was_compacted_again() -> None:
    before = Compacted(15, frozenset(LATEST))
    after = before.grown(SENT, kept_from=17, horizon=20)
    assert after.sure == {10, 11, 17, 18, 19}
    assert after.unsure == {15, 16}, "they may have been deleted before"
    assert not list(after.differences([15, 16, 17, 18, 19]))
    assert not list(after.differences([10, 11, 17, 18, 19]))
    assert list(after.differences([11, 17, 18, 19]))
    assert list(after.differences([12, 15, 16, 17, 18, 19]))


def test_what_was_seen_counts_from_then_on() -> None:
    unsure = book()
    log = unsure.families["plain"].logs[-1]
    log.subscriptions["red"] = Span(10, 20)
    del log.places[19]
    assert not unsure.differences(seen())
    unsure.learn(seen())
    assert log.subscriptions["red"] == Span(14, 14) and 19 in log.places
    lost = seen()
    log_of(lost).messages.remove(19)
    assert unsure.differences(lost)
