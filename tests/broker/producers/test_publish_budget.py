"""The bytes that may wait for the disk."""

from magnetar_broker.producers.publish_budget import PublishBudget


def test_it_is_exhausted_at_the_limit() -> None:
    budget = PublishBudget(100)
    budget.take(99)
    assert not budget.exhausted
    budget.take(1)
    assert budget.exhausted


def test_without_a_limit_it_never_is() -> None:
    for limit in (0, -1 << 20):
        budget = PublishBudget(limit)
        budget.take(1 << 60)
        assert not budget.exhausted


def test_paused_connections_are_resumed_when_half_is_free_and_not_at_every_release() -> None:
    budget, asked = PublishBudget(100), list[str]()
    budget.take(120)
    budget.paused |= {lambda: asked.append("a"), lambda: asked.append("b")}
    budget.give(60)
    assert asked == []
    budget.give(10)
    assert sorted(asked) == ["a", "b"]
    budget.give(50)
    assert sorted(asked) == ["a", "b"]
    assert budget.used == 0


def test_a_resumed_connection_removes_itself_and_may_be_paused_again() -> None:
    budget, asked = PublishBudget(10), list[int]()

    def resume() -> None:
        asked.append(budget.used)
        budget.paused.discard(resume)

    for round_ in range(2):
        budget.take(10)
        budget.paused.add(resume)
        budget.give(10)
        assert asked == [0] * (round_ + 1)
        assert not budget.paused


def test_a_connection_that_does_not_resume_is_tried_again_later() -> None:
    budget, asked = PublishBudget(10), list[int]()
    budget.paused.add(lambda: asked.append(budget.used))
    for _ in range(3):
        budget.take(10)
        budget.give(10)
    assert asked == [0, 0, 0]
