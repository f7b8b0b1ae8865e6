"""The epochs of deliveries: what was sent before a redelivery of all is dropped. Pure."""


class Epochs:
    """The epoch of a consumer, which the broker repeats in each message that it sends (PIP-84)."""

    def __init__(self, is_on: bool) -> None:
        """`is_on`: whether the subscription has epochs; without them no message is stale."""
        self._is_on = is_on
        self.epoch: int | None = None
        """The number raised by each registration and by each redelivery of all; None at first."""
        self._aborting = 0
        """The number of transactions being aborted that had acknowledged messages here."""

    def raise_epoch(self) -> int | None:
        """Start and return a new epoch for deliveries; None if the subscription has no epochs."""
        if self._is_on:
            self.epoch = 0 if self.epoch is None else self.epoch + 1
        return self.epoch

    def is_stale(self, epoch: int | None) -> bool:
        """Tell whether a message was sent before the epoch was raised; older brokers do not say."""
        if self._aborting:
            return True  # it is redelivered once the transaction is aborted
        return epoch is not None and self.epoch is not None and epoch < self.epoch

    def abort_begins(self) -> None:
        """Treat every message as stale until `abort_ends`: the broker is about to redeliver all."""
        self._aborting += 1

    def abort_ends(self) -> None:
        """Accept messages again, unless another transaction is being aborted."""
        self._aborting -= 1
