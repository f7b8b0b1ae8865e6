"""Faults of snapshots."""

from mutants.fault import Fault

FILES = "broker/magnetar_broker/server/snapshots/files.py"
CAPTURE_TESTS = ("tests/storage/local/test_capture.py",)
HOLD_TESTS = ("tests/storage/metadata/test_hold.py",)
ORDER_TESTS = ("tests/broker/server/test_snapshot_order.py",)
WRITE_BEHIND = "storage/magnetar_storage/local/write_behind.py"
MAKING = "broker/magnetar_broker/server/snapshots/making.py"

SNAPSHOT_FAULTS = (
    Fault(
        "storage/magnetar_storage/metadata/sqlite.py",
        "metadata changes although it was copied for a snapshot",
        "        self._held = True\n",
        "        self._held = False\n",
        HOLD_TESTS,
    ),
    Fault(
        MAKING,
        "metadata changes before all processes have decided what is in the snapshot",
        "                await _all(part.cut(making.token) for part in parts)\n"
        "        except TimeoutError:",
        "                self._metadata.release()\n"
        "                await _all(part.cut(making.token) for part in parts)\n"
        "        except TimeoutError:",
        ORDER_TESTS,
    ),
    Fault(
        MAKING,
        "metadata is copied after a process has decided what is in the snapshot",
        "                await self._metadata.hold(os.path.join(unfinished, METADATA_FILE))\n"
        "                await _all(part.cut(making.token) for part in parts)\n",
        "                await _all(part.cut(making.token) for part in parts)\n"
        "                await self._metadata.hold(os.path.join(unfinished, METADATA_FILE))\n",
        ORDER_TESTS,
    ),
    Fault(
        MAKING,
        "after a snapshot that failed metadata does not change any more",
        "        finally:\n            self._metadata.release()\n",
        "        finally:\n            pass\n",
        ORDER_TESTS,
    ),
    Fault(
        "storage/magnetar_storage/metadata/sqlite.py",
        "changes of metadata wait for a copy that was given up",
        "pages=COPIED_PAGES, progress=copying.check",
        "pages=COPIED_PAGES",
        HOLD_TESTS,
    ),
    Fault(
        MAKING,
        "after a snapshot that failed its links keep deleted segments on disk",
        "            await _all(part.drop(making.token) for part in parts)\n",
        "            pass\n",
        ORDER_TESTS,
    ),
    Fault(
        MAKING,
        "the event loop removes a snapshot that failed",
        "await asyncio.to_thread(remove_tree, unfinished)",
        "remove_tree(unfinished)",
        ORDER_TESTS,
    ),
    Fault(
        MAKING,
        "a data directory with a running broker looks like a snapshot",
        "        await asyncio.to_thread(remove_manifest, self._data_dir)\n",
        "",
        ORDER_TESTS,
    ),
    Fault(
        WRITE_BEHIND,
        "it is said to be decided what is in a snapshot while segments of it can be deleted",
        "        self._describe_slice(state, self._journal_bytes, waiters, captures)\n",
        "        for capture in captures:\n            capture.begun()\n"
        "        self._describe_slice(state, self._journal_bytes, waiters, captures)\n",
        CAPTURE_TESTS,
    ),
    Fault(
        WRITE_BEHIND,
        "a snapshot lists segments that were deleted before their files were taken",
        "if number not in doomed}",
        "}",
        CAPTURE_TESTS,
    ),
    Fault(
        WRITE_BEHIND,
        "a restored broker gives ids that the original has given since",
        "segment_ids.following(made.next_segment, IDS_LEFT_OUT)",
        "made.next_segment",
        CAPTURE_TESTS,
    ),
    Fault(
        WRITE_BEHIND,
        "a snapshot continues a journal that it does not have",
        "JournalPosition(made.position.file + 1, 0, made.position.round)",
        "made.position",
        CAPTURE_TESTS,
    ),
    Fault(
        FILES,
        "a snapshot shares a file that still grows",
        "    if length is None:\n        size",
        "    if True:\n        size",
        ORDER_TESTS,
    ),
    Fault(
        FILES,
        "a snapshot looks complete before it is",
        '    sync(os.path.join(unfinished, "metadata.db"))\n',
        "    os.rename(unfinished, finished)\n    unfinished = finished\n"
        '    sync(os.path.join(unfinished, "metadata.db"))\n',
        ORDER_TESTS,
    ),
)
