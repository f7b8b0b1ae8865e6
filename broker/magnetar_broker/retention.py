"""How long acknowledged segments stay."""

from dataclasses import dataclass

from magnetar_storage.log_record import Segment


@dataclass(frozen=True)
class Retention:
    """Keeps consumed segments while they are young and few enough; -1 is no limit, 0/0 none."""

    minutes: int = 0
    megabytes: int = 0

    def keeps(self, age_ms: int, retained_bytes: int) -> bool:
        """Whether a consumed segment stays, given all retained bytes from it on."""
        young = self.minutes < 0 or age_ms < self.minutes * 60_000
        small = self.megabytes < 0 or retained_bytes <= self.megabytes << 20
        return young and small


def released_to(
    segments: tuple[Segment, ...], first_offset: int, retention: Retention, now_ms: int
) -> int:
    """The offset below which segments may go once nobody needs them: settled, not retained."""
    retained = sum(segment.size for segment in segments)
    offset = first_offset
    for segment in segments:
        if segment.entries is None or retention.keeps(now_ms - segment.sealed_ms, retained):
            break
        offset += segment.entries
        retained -= segment.size
    return offset
