"""Which deliveries count as sent before a redelivery of all."""

from magnetar.consuming.epochs import Epochs


def test_only_what_was_sent_before_the_epoch_was_raised_is_stale() -> None:
    epochs = Epochs(is_on=True)
    assert not epochs.is_stale(0), "no epoch was raised"
    assert [epochs.raise_epoch() for _ in range(3)] == [0, 1, 2]
    assert [epochs.is_stale(epoch) for epoch in (0, 1, 2, None)] == [True, True, False, False]


def test_without_epochs_nothing_is_stale() -> None:
    epochs = Epochs(is_on=False)
    assert epochs.raise_epoch() is None
    assert not epochs.is_stale(0)


def test_everything_is_stale_until_the_last_transaction_is_aborted() -> None:
    epochs = Epochs(is_on=True)
    epochs.abort_begins()
    epochs.abort_begins()
    assert epochs.is_stale(None)
    epochs.abort_ends()
    assert epochs.is_stale(None)
    epochs.abort_ends()
    assert not epochs.is_stale(None)
