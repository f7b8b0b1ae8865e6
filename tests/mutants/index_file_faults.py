"""Faults of index files: what is kept of open segments, and what is believed of it."""

from mutants.fault import Fault

INDEX_FILE = "storage/magnetar_storage/local/index_file.py"
FILE_HEAD = "storage/magnetar_storage/local/file_head.py"
OPEN_INDEXES = "storage/magnetar_storage/local/open_indexes.py"
WRITE_BEHIND = "storage/magnetar_storage/local/write_behind.py"
TESTS = ("tests/storage/local/test_index_file.py",)

INDEX_FILE_FAULTS = (
    Fault(
        INDEX_FILE,
        "blocks are not looked for where the index file places them",
        "if _fits(disk, segment, content) else None",
        "",
        TESTS,
    ),
    Fault(
        INDEX_FILE,
        "an index is used that counts other entries or messages than the journal",
        "if complete and (index.entries, index.messages.all) == (entries, messages):",
        "if complete:",
        TESTS,
    ),
    Fault(
        INDEX_FILE,
        "a part of an index need not follow the one before",
        "or before != known ",
        "",
        TESTS,
    ),
    Fault(
        FILE_HEAD,
        "a part of an index fits into every index file",
        "    return int(crc)",
        "    return 0",
        TESTS,
    ),
    Fault(
        INDEX_FILE,
        "an index file that cannot be read is not replaced by a scan",
        "except Unavailable:",
        "except ZeroDivisionError:",
        TESTS,
    ),
    Fault(
        OPEN_INDEXES,
        "a checkpoint needs its index files",
        "except StorageError as error:",
        "except ZeroDivisionError as error:",
        TESTS,
    ),
    Fault(
        OPEN_INDEXES,
        "an index file whose first write failed is never removed",
        "            kept.grown[growth.segment] = Kept(growth.start, growth.at)\n",
        "",
        TESTS,
    ),
    Fault(
        OPEN_INDEXES,
        "index files are never removed",
        "[number for number in self._files if number not in rows]",
        "[]",
        TESTS,
    ),
    Fault(
        OPEN_INDEXES,
        "an index is written from the beginning each time",
        "Growth(one.id, one.index, kept.blocks, blocks, kept.size)",
        "Growth(one.id, one.index, 0, blocks, 0)",
        TESTS,
    ),
    Fault(
        WRITE_BEHIND,
        "an error of writing an index file is not reported",
        "                    self._failed(INDEX_FILES, kept.trouble)",
        "                    pass",
        TESTS,
    ),
)
