"""Faults of several store directories: whose ids come next, and who may read what."""

from mutants.fault import Fault

DIRECTORIES = "storage/magnetar_storage/local/directories.py"
FOREIGN = "storage/magnetar_storage/joined/foreign_directory.py"
IDS = "storage/magnetar_storage/local/segment_ids.py"
JOINED = "storage/magnetar_storage/joined/joined_store.py"
OPENING = "storage/magnetar_storage/joined/opening.py"
RECOVERY = "storage/magnetar_storage/local/recovery.py"
STORE = "storage/magnetar_storage/local/store.py"
WRITE_BEHIND = "storage/magnetar_storage/local/write_behind.py"
VERIFY_STORE = "storage/magnetar_storage/verify/verify_store.py"
JOINED_TESTS = ("tests/storage/joined/test_joined_store.py",)
ID_TESTS = ("tests/storage/local/test_segment_ids.py",)
DIRECTORY_TESTS = ("tests/storage/local/test_directories.py",)
VERIFY_TESTS = ("tests/storage/verify/test_verify_directories.py",)
ORPHAN_TESTS = ("tests/broker/lifetime/test_orphans.py",)

DIRECTORY_FAULTS = (
    Fault(
        OPENING,
        "new ids are not above those of the other directories of the process",
        "        await opened[own].advance_beyond("
        "max(store.last_id for store in opened.values()))\n",
        "",
        JOINED_TESTS,
    ),
    Fault(
        STORE,
        "a start that has lost the last round does not know how far ids have come",
        '            await self._commit(DELETE, skipped, b"", lambda: None)\n',
        "",
        ID_TESTS,
    ),
    Fault(
        STORE,
        "a segment that was made before ids advanced is handed out after",
        "while made.id <= self._passed:",
        "while False:",
        ID_TESTS,
    ),
    Fault(
        STORE,
        "an advance goes back behind ids that were given out",
        "max(segment, self.last_id)",
        "segment",
        ID_TESTS,
    ),
    Fault(
        IDS,
        "ids count in ones where they name a directory",
        "return segment + count * DIRECTORIES",
        "return segment + count",
        ID_TESTS,
    ),
    Fault(
        RECOVERY,
        "a store directory is used in the place of another",
        "    _check_directory(start, directory)\n",
        "",
        ID_TESTS,
    ),
    Fault(
        DIRECTORIES,
        "earlier releases use a data directory that has others",
        "        layout.write_format(disk, layout.SEVERAL)\n",
        "        pass\n",
        DIRECTORY_TESTS,
    ),
    Fault(
        DIRECTORIES,
        "a directory that a killed start has made is lost with the power",
        "    if len(everything) > 1:",
        "    if missing:",
        DIRECTORY_TESTS,
    ),
    Fault(
        WRITE_BEHIND,
        "what another process is to read waits until nothing else is due",
        "elif self._finishing and self._flushed_last:",
        "elif False:",
        ("tests/storage/local/test_write_behind.py",),
    ),
    Fault(
        FOREIGN,
        "a segment of another process is read before its file is finished",
        "            await self._holder.finish(segment)\n",
        "",
        JOINED_TESTS,
    ),
    Fault(
        STORE,
        "a segment is reported as finished that is in the journal only",
        "            self._write_behind.finish(segment, settling(promise))\n"
        "            await promise\n"
        "        if segment not in self._finished:\n"
        '            raise NoSegment(f"segment {segment} was deleted")\n',
        "",
        JOINED_TESTS,
    ),
    Fault(
        STORE,
        "a segment of an earlier life never gets its footer",
        "            await self._find(segment)  # those in memory",
        "            pass  # those in memory",
        JOINED_TESTS,
    ),
    Fault(
        JOINED,
        "a process deletes in the directories that it has open only",
        "            await found.delete(segment)",
        "            await self._own.delete(segment)",
        JOINED_TESTS,
    ),
    Fault(
        VERIFY_STORE,
        "a segment in the directory of another is checked as one of its own",
        "if directory_of(number) == self._directory:",
        "if True:",
        VERIFY_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/verify.py",
        "a data directory is checked while a worker uses its part",
        "            locks.enter_context(closing(disk.lock(name)))\n",
        "",
        ("tests/broker/test_verify_command.py",),
    ),
    Fault(
        JOINED,
        "segments of other processes are always taken to exist",
        "        if found is None:\n            return segments",
        "        if number not in self._opened:\n            return []",
        ORPHAN_TESTS,
    ),
)
