"""Yielding the event loop in the middle of long work."""

from magnetar_storage.world.runtime import Clock


async def yield_turn(clock: Clock) -> None:
    """Continue after everything else that is due now has run."""
    turn = clock.promise()
    clock.soon(lambda: turn.set_result(None))
    await turn
