"""Settings that were changed while the broker ran: durable, and followed by all processes."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping

from magnetar_broker.base.metadata_keys import DYNAMIC_SETTINGS
from magnetar_broker.base.records import change_record, create_record, read_record
from magnetar_broker.base.runtime import MetadataRuntime
from magnetar_broker.config import ConfigError, Settings
from magnetar_broker.config.changes import Given, check_dynamic, with_changes, with_reloaded
from magnetar_storage.world.mutex import Mutex

logger = logging.getLogger(__name__)

Configure = Callable[[Settings, Mapping[str, str]], Awaitable[None]]
"""Has everything follow settings, and the changes in them by key; done on return."""


class DynamicSettings:
    """One per broker.  One change is stored and followed at a time."""

    def __init__(self, settings: Settings, runtime: MetadataRuntime, configure: Configure) -> None:
        """`settings` are those that the broker was started with."""
        self._started_with = settings
        self._metadata = runtime.metadata
        self._configure = configure
        self._changing = Mutex(runtime.clock)
        self.values: dict[str, str] = {}
        """The changes, by key."""

    async def start(self) -> None:
        """Follow what earlier runs have stored; a value that is not allowed now is left out."""
        stored = await read_record(self._metadata, DYNAMIC_SETTINGS) or {}
        for name, text in stored.items():
            try:
                with_changes(self._started_with, {**self.values, name: text})
            except ConfigError as error:
                logger.warning("a setting that was changed earlier is not in effect: %s", error)
            else:
                self.values[name] = text
        if self.values:
            shown = json.dumps(self.values)
            logger.info("settings changed at run time are in effect: %s", shown)
            await self._follow()

    async def set(self, name: str, text: str) -> None:
        """Change a setting; stored and followed on return.  `ConfigError` says why not."""
        async with self._changing.held():
            changed = {**self.values, name: text}
            with_changes(self._started_with, changed)
            await self._store(name, text)
            await self._change(changed, f"{name}={text}")

    async def delete(self, name: str) -> None:
        """Have a setting as the broker was started with it; it need not have been changed."""
        check_dynamic(name)
        async with self._changing.held():
            changed = {key: text for key, text in self.values.items() if key != name}
            with_changes(self._started_with, changed)
            await self._store(name, None)
            if name in self.values:
                await self._change(changed, f"{name} is as it was at the start")

    async def reload(self, values: Mapping[str, Given]) -> None:
        """Have other values than at the start, by key; the changes still take precedence."""
        async with self._changing.held():
            self._started_with = with_reloaded(self._started_with, values)
            await self._follow()

    async def _store(self, name: str, text: str | None) -> None:
        def changed(stored: dict[str, str]) -> dict[str, str]:
            others = {key: value for key, value in stored.items() if key != name}
            return others if text is None else {**others, name: text}

        while not await change_record(self._metadata, DYNAMIC_SETTINGS, changed):
            await create_record(self._metadata, DYNAMIC_SETTINGS, {})

    async def _change(self, changed: dict[str, str], what: str) -> None:
        self.values = changed
        await self._follow()
        logger.info("a setting was changed at run time: %s", what)

    async def _follow(self) -> None:
        await self._configure(with_changes(self._started_with, self.values), self.values)
