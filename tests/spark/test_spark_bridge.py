"""The thread in which a process talks to a broker."""

import asyncio
import threading

from ports import free_ports
from pyspark_magnetar.bridge import Bridge, bridge_to, close_bridges
from pyspark_magnetar.read_options import ReadOptions


def test_closed_bridges_leave_no_thread() -> None:
    url = f"pulsar://127.0.0.1:{free_ports(1)[0]}"
    options = ReadOptions.parse({"service.url": url, "topic": "t"}, is_streaming=False)
    bridge = bridge_to(options.connecting)
    assert bridge_to(options.connecting) is bridge
    bridge.start(asyncio.Event().wait())
    assert threads(), "the bridge runs"
    close_bridges()
    assert not threads()
    again = bridge_to(options.connecting)
    assert again is not bridge and isinstance(again, Bridge)
    close_bridges()


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "magnetar"]
