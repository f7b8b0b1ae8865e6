"""The options of consumers that are objects of their own."""

from pathlib import Path

import magnetar
from magnetar.compat.checks import check
from magnetar.compat.enums import KeySharedMode
from magnetar.consuming.options import DeadLetterPolicy, KeyShared


class ConsumerDeadLetterPolicy:
    """The number of deliveries after which messages are dead letters, and their destination."""

    def __init__(
        self,
        max_redeliver_count: int,
        dead_letter_topic: str | None = None,
        initial_subscription_name: str | None = None,
    ) -> None:
        if max_redeliver_count is None or max_redeliver_count < 1:
            raise ValueError(f"max_redeliver_count must be above 0, but is {max_redeliver_count}")
        self._policy = DeadLetterPolicy(
            max_redeliver_count,
            dead_letter_topic or None,
            initial_subscription=initial_subscription_name or None,
        )

    @property
    def dead_letter_topic(self) -> str:
        """The name of the dead letter topic; "" for the default."""
        return self._policy.dead_letter_topic or ""

    @property
    def max_redeliver_count(self) -> int:
        return self._policy.max_redeliveries

    @property
    def initial_subscription_name(self) -> str:
        """The name of the subscription to create; "" for no subscription."""
        return self._policy.initial_subscription or ""

    def policy(self) -> DeadLetterPolicy:
        """Return the policy as an object of `magnetar`."""
        return self._policy


class ConsumerBatchReceivePolicy:
    """The limits of `batch_receive`, which returns at the first reached; below 1 means none."""

    def __init__(self, max_num_message: int, max_num_bytes: int, timeout_ms: int) -> None:
        for name, value in (
            ("max_num_message", max_num_message),
            ("max_num_bytes", max_num_bytes),
            ("timeout_ms", timeout_ms),
        ):
            check(int, value, name)
        if max_num_message <= 0 and max_num_bytes <= 0 and timeout_ms <= 0:
            raise ValueError("one of max_num_message, max_num_bytes and timeout_ms must be above 0")
        self.max_num_message = max_num_message
        self.max_num_bytes = max_num_bytes
        self.timeout_ms = timeout_ms

    def policy(self) -> "ConsumerBatchReceivePolicy":
        """Return the policy itself."""
        return self


DEFAULT_BATCH_RECEIVE = ConsumerBatchReceivePolicy(-1, 10 * 1024 * 1024, 100)


class ConsumerKeySharedPolicy:
    """The way in which the consumers of a KeyShared subscription divide the keys."""

    def __init__(
        self,
        key_shared_mode: KeySharedMode = KeySharedMode.AutoSplit,
        allow_out_of_order_delivery: bool = False,
        sticky_ranges: list[tuple[int, int]] | None = None,
    ) -> None:
        if key_shared_mode == KeySharedMode.Sticky and sticky_ranges is None:
            raise ValueError("KeySharedMode.Sticky needs sticky_ranges")
        if key_shared_mode != KeySharedMode.Sticky and sticky_ranges:
            raise ValueError("sticky_ranges need KeySharedMode.Sticky")
        self._mode = key_shared_mode
        self._policy = KeyShared(
            [(start, end) for start, end in sticky_ranges or ()], allow_out_of_order_delivery
        )

    @property
    def key_shared_mode(self) -> KeySharedMode:
        return self._mode

    @property
    def allow_out_of_order_delivery(self) -> bool:
        return self._policy.out_of_order

    @property
    def sticky_ranges(self) -> list[tuple[int, int]]:
        return list(self._policy.ranges)

    def policy(self) -> KeyShared:
        """Return the policy as an object of `magnetar`."""
        return self._policy


class CryptoKeyReader:
    """Reads the encryption keys from two files."""

    def __init__(self, public_key_path: str, private_key_path: str) -> None:
        check(str, public_key_path, "public_key_path")
        check(str, private_key_path, "private_key_path")
        self._keys = magnetar.KeyReader(Path(public_key_path), Path(private_key_path))
