"""Offloading of a topic without a driver."""

from fakes.logs import LogWorld
from magnetar_broker.tiering.offloading import (
    OffloadFigures,
    OffloadState,
    OffloadStatus,
    WithoutDriver,
)


def test_without_a_driver_a_request_fails_and_says_why() -> None:
    offloading = WithoutDriver()
    assert offloading.status() == OffloadStatus(OffloadState.NOT_RUN, "", (-1, -1))
    LogWorld().do(offloading.start((3, 0)))
    status = offloading.status()
    assert status.state is OffloadState.ERROR and "managedLedgerOffloadDriver" in status.last_error
    assert offloading.figures() == OffloadFigures()
