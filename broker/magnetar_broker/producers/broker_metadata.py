"""Adds broker entry metadata to entries on their way into a log."""

from collections.abc import Set
from itertools import accumulate

from magnetar_broker.config.domains import MetadataInterceptor
from magnetar_proto.broker_metadata import encode_broker_metadata
from magnetar_storage.log.log import Log, LogRun


def add_broker_metadata(log: Log, interceptors: Set[MetadataInterceptor]) -> None:
    """Add the metadata of these interceptors to every entry that is appended from now on."""
    if interceptors:
        log.before_append = _Adding(log, interceptors)


class _Adding:
    """Puts the broker's time, the index of the last message, or both before each entry of a run."""

    __slots__ = ("_clock", "_has_index", "_has_time", "_log")

    def __init__(self, log: Log, interceptors: Set[MetadataInterceptor]) -> None:
        self._log = log
        self._clock = log.engine.clock
        self._has_index = MetadataInterceptor.INDEX in interceptors
        self._has_time = MetadataInterceptor.BROKER_TIMESTAMP in interceptors

    def __call__(self, run: LogRun) -> None:
        payloads = run.payloads
        if self._has_index:
            # promise[- 1 -> - 2]: the index counts messages from 0
            last = accumulate(run.counts, initial=self._log.next_message - 1)
            indexes = list(last)[1:]
        else:
            indexes = [-1] * len(payloads)
        time_ms = self._clock.now_ms() if self._has_time else 0
        heads = encode_broker_metadata(time_ms, indexes)
        run.payloads = [head + payload for head, payload in zip(heads, payloads, strict=True)]
        # Kept apart: limits and statistics of publishing count what clients have sent.
        run.added = sum(map(len, heads))
        run.size += run.added
