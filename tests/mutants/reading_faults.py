"""Faults of what operators see and change: messages, and settings of a broker that runs."""

from mutants.fault import Fault

READING = "broker/magnetar_broker/server/admin/operations/reading.py"
SHOWN = "broker/magnetar_broker/server/admin/shown_message.py"
DYNAMIC = "broker/magnetar_broker/names/dynamic_settings.py"
DISTRIBUTED = "broker/magnetar_broker/names/distributed.py"
RESIDENCE = "broker/magnetar_broker/topic/residence.py"
LOOKS = ("tests/broker/server/test_admin_reading.py",)
LETTERS = ("tests/broker/server/test_dead_letters.py",)
STORED = ("tests/broker/server/test_policies_without_effect.py",)
PERMITTED = ("tests/broker/server/test_permissions.py",)
REPLAYS = "broker/magnetar_broker/server/admin/replays.py"
SEARCHING = "broker/magnetar_broker/server/admin/operations/searching.py"
SEARCHED = ("tests/broker/server/test_searching.py",)
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
        "            await for_each(self._engine, list(self.topics), self._configured)\n",
        "            pass\n",
        SETTINGS,
    ),
    Fault(
        RESIDENCE,
        "publishers wait for a rate of the broker that was given up",
        "            self._shared.rates.release()\n",
        "            pass\n",
        SETTINGS,
    ),
    Fault(
        REPLAYS,
        "a dry run publishes",
        "        if self._dry:\n            return\n",
        "",
        LETTERS,
    ),
    Fault(
        REPLAYS,
        "a dead letter goes to another partition than the one that it came from",
        "        if origin.base == self._base and 0 <= origin.partition < partitions:\n",
        "        if False:\n",
        LETTERS,
    ),
    Fault(
        REPLAYS,
        "a replay begins again where it began",
        "            self._next = following\n",
        "            self._next = None\n",
        LETTERS,
    ),
    Fault(
        SEARCHING,
        "a search ignores the value of a property",
        "text_of(one.key) == name and (value is None or text_of(one.value) == value)",
        "text_of(one.key) == name",
        LETTERS,
    ),
    Fault(
        SEARCHING,
        "a search finds more messages of a batch than its limit",
        "            if index > first and self.ended:\n                return index\n",
        "",
        LETTERS,
    ),
    Fault(
        SEARCHING,
        "a search of large batches lets nothing else run",
        "            await yield_turn(self._clock)\n",
        "",
        SEARCHED,
    ),
    Fault(
        SEARCHING,
        "the key of a message of a batch must be UTF-8",
        "written = key if isinstance(key, bytes) else str(key).encode()",
        "written = str(key).encode()",
        SEARCHED,
    ),
    Fault(
        "broker/magnetar_broker/server/admin/operations/replaying.py",
        "replays that run at the same time are in each other's way",
        "    async with turn:\n        return await _store(broker, name, messages)\n",
        "    return await _store(broker, name, messages)\n",
        SEARCHED,
    ),
    Fault(
        "broker/magnetar_broker/server/admin/policies/line.py",
        "nobody is told that a policy has no effect",
        "        if not why or value is None:\n",
        "        if True:\n",
        STORED,
    ),
    Fault(
        "broker/magnetar_broker/names/directory.py",
        "a topic that is created again has the permissions of the one before",
        "                await self.permissions.delete_topic(subject)\n",
        "                pass\n",
        PERMITTED,
    ),
    Fault(
        "broker/magnetar_broker/names/permissions.py",
        "the permissions of a partition outlive its topic",
        "return before == text and bool(",
        "return False and bool(",
        PERMITTED,
    ),
)
