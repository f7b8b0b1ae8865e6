"""Where a reader goes on: which entries lie before its start."""

from fakes.client_entries import TOPIC, stored
from magnetar.consuming.options import Subscription
from magnetar.consuming.resume_position import ResumePosition
from magnetar.messages import Entry
from magnetar_proto.broker_metadata import encode_broker_metadata
from magnetar_proto.ids import EARLIEST


def test_a_start_by_time_goes_by_the_time_of_the_broker() -> None:
    subscription = Subscription("s", start=EARLIEST, start_time_ms=1_700_000_000_000)
    [added] = encode_broker_metadata(1_800_000_000_000, [7])
    for data, is_seen in ((stored([b"a"]), True), (added + stored([b"a"]), False)):
        entry = Entry(TOPIC, (3, 4, -1), data)
        assert ResumePosition(TOPIC, subscription).is_seen(entry) == is_seen
