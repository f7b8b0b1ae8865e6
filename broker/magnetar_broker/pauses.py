"""Leaving a turn of the loop to others in the middle of long work."""

from magnetar_storage.world import Clock


async def pause(clock: Clock) -> None:
    """Go on when everything else that is due now has been done."""
    turn = clock.promise()
    clock.soon(lambda: turn.set_result(None))
    await turn
