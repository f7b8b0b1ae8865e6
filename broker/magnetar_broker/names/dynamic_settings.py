"""Settings that were changed while the broker ran: durable, and followed by all processes."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping

from magnetar_broker.base.metadata_keys import DYNAMIC_SETTINGS
from magnetar_broker.base.records import change_record, create_record, read_record
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.config import Settings
from magnetar_broker.config.changes import (
    Given,
    allowed_changes,
    check_dynamic,
    with_changes,
    with_reloaded,
    without_effect,
)
from magnetar_storage.runtime.mutex import Mutex

logger = logging.getLogger(__name__)

Configure = Callable[[Settings, Mapping[str, str]], Awaitable[None]]
"""A coroutine function that applies settings, given with the changed ones by key."""


class DynamicSettings:
    """The settings changed at run time; one change is stored and followed at a time."""

    def __init__(self, settings: Settings, runtime: NamesRuntime, configure: Configure) -> None:
        """`settings` are the settings of the start."""
        self._started_with = settings
        self._metadata = runtime.metadata
        self._configure = configure
        self._changing = Mutex(runtime.clock)
        self.values: dict[str, str] = {}
        """The changed values, by key."""

    async def load(self) -> None:
        """Apply the stored changes; a value that is not allowed now is left out."""
        stored = await read_record(self._metadata, DYNAMIC_SETTINGS) or {}
        changed = self._allowed(self._started_with, stored)
        unused = sorted(name for name, text in changed.items() if without_effect(name, text))
        if unused:
            logger.warning(
                "settings changed at run time are without effect here: %s", ", ".join(unused)
            )
        if changed == self.values:
            return
        if changed:
            shown = json.dumps({name: changed[name] for name in changed if name not in unused})
            logger.info("settings changed at run time are in effect: %s", shown)
        await self._follow(changed)

    async def set(self, name: str, text: str) -> None:
        """Change a setting; stored and followed on return.  `ConfigError` says why it cannot be."""
        async with self._changing.held():
            changed = {**self.values, name: text}
            with_changes(self._started_with, changed)
            await self._store(name, text)  # promise: a changed setting is kept over a restart
            await self._follow(changed)
        why = without_effect(name, text)
        if why is None:
            logger.info("a setting was changed at run time: %s=%s", name, text)
        else:
            logger.warning("%s was changed at run time and has no effect here: it %s", name, why)

    async def delete(self, name: str) -> None:
        """Reset a setting to the value at the start; the setting need not have been changed."""
        check_dynamic(name)
        async with self._changing.held():
            changed = {key: text for key, text in self.values.items() if key != name}
            with_changes(self._started_with, changed)
            # promise: a setting that was given back stays so over a restart
            await self._store(name, None)
            # Follow even if it is not in effect: after a failed request some topics may lag.
            await self._follow(changed)
        logger.info("a setting was changed at run time: %s is as it was at the start", name)

    async def reload(self, values: Mapping[str, Given]) -> None:
        """Replace the values that the settings had at the start, by key.

        Changes at run time still take precedence, except those that contradict the new values.
        """
        async with self._changing.held():
            self._started_with = with_reloaded(self._started_with, values)
            # promise[_allowed(self._started_with, self.values) -> values]: changed settings that
            #   still fit survive a reload
            await self._follow(self._allowed(self._started_with, self.values))

    async def _store(self, name: str, text: str | None) -> None:
        def changed(stored: dict[str, str]) -> dict[str, str]:
            others = {key: value for key, value in stored.items() if key != name}
            return others if text is None else {**others, name: text}

        while not await change_record(self._metadata, DYNAMIC_SETTINGS, changed):
            await create_record(self._metadata, DYNAMIC_SETTINGS, {})

    async def _follow(self, changed: dict[str, str]) -> None:
        await self._configure(with_changes(self._started_with, changed), changed)
        self.values = changed

    @staticmethod
    def _allowed(settings: Settings, changed: Mapping[str, str]) -> dict[str, str]:
        allowed, problems = allowed_changes(settings, changed)
        for problem in problems:
            logger.warning("a setting that was changed earlier is not in effect: %s", problem)
        return allowed
