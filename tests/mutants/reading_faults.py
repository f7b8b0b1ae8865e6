"""Faults of what operators see and change: messages, and settings of a broker that runs."""

from mutants.fault import Fault

READING = "broker/magnetar_broker/server/admin/operations/reading.py"
SHOWN = "broker/magnetar_broker/server/admin/shown_message.py"
DYNAMIC = "broker/magnetar_broker/names/dynamic_settings.py"
DISTRIBUTED = "broker/magnetar_broker/names/distributed.py"
RESIDENCE = "broker/magnetar_broker/topic/residence.py"
LOOKS = ("tests/broker/server/test_admin_reading.py",)
SETTINGS = ("tests/broker/server/test_dynamic_settings.py",)

READING_FAULTS = (
    Fault(
        READING,
        "a peek counts acknowledged entries",
        "_nth(position, first, end, acked.count)",
        "first + position - 1",
        LOOKS,
    ),
    Fault(
        SHOWN,
        "an encrypted payload is decompressed for a peek",
        "        if not metadata.encryption_keys:\n            kind",
        "        if True:\n            kind",
        LOOKS,
    ),
    Fault(
        "broker/magnetar_broker/server/http/connection.py",
        "a message can add headers to the response that shows it",
        'one if one.isprintable() and one < "\\u0100" else " "',
        'one if one < "\\u0100" else " "',
        LOOKS,
    ),
    Fault(
        DYNAMIC,
        "a setting that was changed at run time is forgotten at the restart",
        "            await self._store(name, text)\n",
        "",
        SETTINGS,
    ),
    Fault(
        DYNAMIC,
        "a setting that was given back is changed again at the restart",
        "            await self._store(name, None)\n",
        "",
        SETTINGS,
    ),
    Fault(
        DISTRIBUTED,
        "workers start without the settings that were changed",
        '        link.notify("residence.settings", self.changed_settings)\n',
        "",
        SETTINGS,
    ),
    Fault(
        DISTRIBUTED,
        "one worker follows a changed setting",
        "await for_each(self._runtime, self.links.all(), configure)",
        "await for_each(self._runtime, self.links.all()[:1], configure)",
        SETTINGS,
    ),
    Fault(
        RESIDENCE,
        "loaded topics do not follow a changed setting",
        "        await for_each(self._engine, list(self.topics), self._configured)\n",
        "",
        SETTINGS,
    ),
    Fault(
        RESIDENCE,
        "publishers wait for a rate of the broker that was given up",
        "        self._shared.rates.release()\n",
        "",
        SETTINGS,
    ),
)
