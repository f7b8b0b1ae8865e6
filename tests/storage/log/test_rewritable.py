"""What of a log could be rewritten."""

from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.rewritable import units


def test_units_are_what_is_stored_together() -> None:
    segments = (
        Segment(1, 0, 10, kept=0),
        Segment(2, 0, 10, kept=1, kept_in=9),
        Segment(3, 0, 10, kept=0),
        Segment(4, 0, 10, kept=2, kept_in=9),
        Segment(5, 0, 10),
        Segment(6, 0, 10, kept=0),
        Segment(7, 0, 10),
        Segment(8, 0, None),
    )
    record = LogRecord(0, 5, 0, segments)
    found = [(unit.start, unit.stop, unit.stored_in, unit.held) for unit in units(record, 99)]
    assert found == [(5, 15, None, 0), (15, 45, 9, 3), (45, 65, 5, 10), (65, 75, 7, 10)]
    assert [u.stop for u in units(record, 64)] == [15, 45, 55]
