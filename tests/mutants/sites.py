"""What can be taken out: found in the sources, and named here.

Found: every sync of a file or directory, every comparison with a checksum, every cursor
record.  Named: the orders that make "durable before receipt" true, and in `faults.py` what
delivery stands on.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants.fault import Fault
from mutants.faults import FAULTS

PACKAGE = Path("storage/magnetar_storage")
SYNCS = {"sync", "sync_dir", "sync_all", "sync_data", "fsync", "fdatasync"}


@dataclass(frozen=True)
class Mutation:
    """One text in one file, and what to put in its place."""

    file: str
    """Its path in the repository."""
    line: int
    what: str
    old: str
    new: str
    start: int
    """Where the text begins in the file."""
    tests: tuple[str, ...] = ()
    """Which tests must notice; none named: those of storage."""

    def apply(self, source: str) -> str:
        end = self.start + len(self.old)
        assert source[self.start : end] == self.old, f"{self.file}:{self.line} has changed"
        return source[: self.start] + self.new + source[end:]


@dataclass(frozen=True)
class Order:
    """A text that makes something durable before something else, and the wrong way round."""

    file: str
    what: str
    old: str
    new: str


ORDERS = (
    Order(
        "local/journal.py",
        "receipts before the round is written",
        "self._worker.submit(partial(_timed, job, self._timer), partial(self._finished, queued))",
        "queued.report_durable()\n"
        "            job, none = partial(_timed, job, self._timer), JournalQueue()\n"
        "            self._worker.submit(job, partial(self._finished, none))",
    ),
    Order(
        "local/journal.py",
        "a round is written behind one that failed",
        "        if self._error is not None:\n            raise self._error\n",
        "",
    ),
    Order(
        "local/journal.py",
        "a journal file has its name before its head is durable",
        "            file.write_through(0, [head, CLEAN_END])\n"
        "        finally:\n"
        "            file.close()\n"
        "        self._disk.rename(spare, name)\n"
        '        self._disk.sync_dir("journal")\n',
        "            self._disk.rename(spare, name)\n"
        '            self._disk.sync_dir("journal")\n'
        "            file.write_through(0, [head, CLEAN_END])\n"
        "        finally:\n"
        "            file.close()\n",
    ),
    Order(
        "local/journal.py",
        "no clean end behind a round",
        "        pieces.append(CLEAN_END)\n",
        "",
    ),
    Order(
        "local/write_behind.py",
        "a checkpoint before the segments that it names",
        "    checkpoints.flush(disk, flushes)\n    for number in sorted(doomed):",
        "    checkpoints.write(disk, made, spare_files)\n    checkpoints.flush(disk, flushes)\n"
        "    for number in sorted(doomed):",
    ),
    Order(
        "local/recovery.py",
        "a checkpoint without what the journal held",
        "        rebuild.flush()\n        if rebuild.deleted:",
        "        if rebuild.deleted:",
    ),
    Order(
        "local/journal_scan.py",
        "an old round is taken for a new one",
        "if found is not None and found.number > self.last_round:",
        "if found is not None:",
    ),
    Order(
        "local/journal_scan.py",
        "an old record is taken for the one that never arrived",
        "return record if place.crc == _crc_at(self.data, place.at) else place",
        "return record",
    ),
    Order(
        "local/journal_scan.py",
        "a torn round is used",
        "if not whole and not self._synced(found.end, found.number):",
        "if False:",
    ),
    Order(
        "local/store.py",
        "a segment is gone before its deletion is durable",
        'await self._commit(DELETE, segment, b"", lambda: self._deleted(segment))',
        'self._deleted(segment)\n        await self._commit(DELETE, segment, b"", lambda: None)',
    ),
    Order(
        "local/store.py",
        "a segment is in use before its creation is durable",
        'self._record(CREATE, number, b"", done)',
        "done(None)",
    ),
    Order(
        "local/store.py",
        "a seal that is not in the journal",
        "await self._commit(\n"
        "                SEAL, one.id, SEALED_BODY.pack(*sealed), partial(_settle, one, sealed)\n"
        "            )",
        "_settle(one, sealed)",
    ),
    Order(
        "world/native_file.py",
        "a write that syncs itself does not",
        "os.pwritev(self._fd, buffers, offset, os.RWF_DSYNC)",
        "os.pwritev(self._fd, buffers, offset)",
    ),
    Order(
        "world/native_file.py",
        "what a direct write left over is not written",
        "self._write_all(piece.at + written, data[written:])",
        "pass",
    ),
    Order(
        "world/native_file.py",
        "a file that was written directly is read directly",
        "finally:\n                self._be_direct(False)",
        "finally:\n                pass",
    ),
    Order(
        "world/pieces.py",
        "what is not aligned is written directly",
        "yield Piece(offset, at - offset, False)",
        "yield Piece(offset, at - offset, True)",
    ),
    Order(
        "cursors/cursor_log.py",
        "acknowledgements are not written",
        "cursor_record.entry(kind, number, body) for kind, body in cursor.take_delta()",
        "cursor_record.entry(kind, number, body) for kind, body in cursor.take_delta()[:0]",
    ),
    Order(
        "cursors/cursor_log.py",
        "a new cursor segment without the cursors there are",
        "payloads += _created(cursor)",
        "pass",
    ),
    Order(
        "cursors/cursor_log.py",
        "changes beside the cursors are not written",
        "payloads += _attached_entries(number, self._attached[number].take_delta())",
        "pass",
    ),
    Order(
        "cursors/cursor_log.py",
        "a new cursor segment without what is beside the cursors",
        "payloads += _attached_entries(number, attached.snapshot())",
        "pass",
    ),
    Order(
        "cursors/cursor.py",
        "counts of redeliveries are not written",
        "pieces(Kind.DELTA, State(mark_delete, ranges, masks, counts))",
        "pieces(Kind.DELTA, State(mark_delete, ranges, masks))",
    ),
    Order(
        "cursors/cursor.py",
        "a count of redeliveries outlives the acknowledgement",
        "self.redelivered.drop(start, stop)",
        "pass",
    ),
    Order(
        "cursors/cursor_record.py",
        "what does not fit into the first piece of a state is not written",
        "return [*states[:1], *bitmaps, *states[1:]]",
        "return states[:1]",
    ),
    Order(
        "log/offset_set.py",
        "a full chunk is taken for an empty one",
        "return offset >> SHIFT in self._full",
        "return False",
    ),
    Order(
        "cursors/cursor_log.py",
        "waiters are notified before the cursor records are durable",
        "self._append(self._writer, payloads, partial(self._flushed, self._take_waiting()))",
        "self._append(self._writer, payloads, partial(self._flushed, []))\n"
        "        self._release(None)",
    ),
    Order(
        "log/rewriting.py",
        "a rewritten segment is deleted before the record lists its replacement",
        "            await stored.commit(partial(self._checked, group, needed, rewritten))",
        "            for segment in {unit.stored_in for unit in group.units if unit.stored_in}:\n"
        "                await self._state.engine.store.delete(segment)\n"
        "            await stored.commit(partial(self._checked, group, needed, rewritten))",
    ),
    Order(
        "cursors/needed.py",
        "entries that are needed are not kept",
        "for run in cursor.acked.missing(first, stop):",
        "for run in list(cursor.acked.missing(first, stop))[1:]:",
    ),
    Order(
        "log/rewriting.py",
        "an entry is kept in the place of another",
        "run.payloads[first - at : behind - at]",
        "run.payloads[: behind - first]",
    ),
    Order(
        "log/stored_record.py",
        "a sparse segment is not trash while it is written",
        "await self.commit(lambda record: replace(record, trash=(*record.trash, writer.segment)))",
        "pass",
    ),
    Order(
        "log/stored_record.py",
        "a sparse segment may be deleted while it is written",
        "self.unfinished.add(writer.segment)",
        "pass",
    ),
    Order(
        "log/rewriting.py",
        "a sparse segment that may be in use may be deleted",
        "            await stored.commit(partial(self._checked, group, needed, rewritten))",
        "            stored.unfinished.clear()\n"
        "            await stored.commit(partial(self._checked, group, needed, rewritten))",
    ),
    Order(
        "log/rewriting.py",
        "a sparse segment is in use before it is sealed",
        "                    await writer.seal()",
        "                    pass",
    ),
    Order(
        "log/rewriting.py",
        "what is needed is not looked at again when it was copied",
        "any(group.live.count(*run) < run[1] - run[0] for run in now)",
        "False",
    ),
    Order(
        "log/log_state.py",
        "cursors are not notified of holes",
        "            self.on_reclaimed()",
        "            pass",
    ),
    Order(
        "log/log_record.py",
        "what was rewritten is not deleted",
        "trash=kept + tuple(sorted(self.stored - after.stored))",
        "trash=kept",
    ),
    Order(
        "log/log_reader.py",
        "holes are not known after a restart",
        "            elif not segment.is_whole:\n                state.holes.add(base, stop)",
        "            elif not segment.is_whole:\n                pass",
    ),
    Order(
        "metadata/sqlite.py",
        "metadata is not synced with its transaction",
        "PRAGMA synchronous=FULL",
        "PRAGMA synchronous=OFF",
    ),
    Order(
        "metadata/sqlite.py",
        "the checksum of a row of the metadata is not looked at",
        " OR crc IS NOT checksum(CAST(key AS BLOB), value, version, lease)",
        "",
    ),
    Order(
        "metadata/sqlite.py",
        "the digest of the metadata is stored without a check",
        "            self._database.check_closed()\n",
        "",
    ),
    Order(
        "metadata/sqlite_digest.py",
        "any digest of the metadata is believed",
        "if read_file(disk, FILE) != encode(disk, database):",
        "if not read_file(disk, FILE):",
    ),
)


def mutations(root: Path) -> list[Mutation]:
    """All of them, in the order of the files and lines."""
    found: list[Mutation] = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        source, file = path.read_text(), str(path.relative_to(root))
        found += _in_tree(file, source)
        found += [
            _named(file, source, order)
            for order in ORDERS
            if PACKAGE / order.file == path.relative_to(root)
        ]
    return found + [_named(one.file, (root / one.file).read_text(), one) for one in FAULTS]


def _in_tree(file: str, source: str) -> Iterator[Mutation]:
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line.encode()))

    def cut(node: ast.expr | ast.stmt, what: str, new: str) -> Mutation:
        assert node.end_lineno is not None and node.end_col_offset is not None
        data = source.encode()
        start = lines[node.lineno - 1] + node.col_offset
        old = data[start : lines[node.end_lineno - 1] + node.end_col_offset].decode()
        return Mutation(file, node.lineno, what, old, new, len(data[:start].decode()))

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = ast.unparse(called)
            if name.rpartition(".")[2] in SYNCS:
                yield cut(node, f"{ast.unparse(node)} is left out", "pass")
            elif name.endswith(".write_through"):
                new = ast.unparse(node).replace(".write_through(", ".write(")
                yield cut(node, f"{name} does not sync", new)
            elif name == "self._events.append":
                yield cut(node, "a cursor record is not written", "pass")
        elif isinstance(node, ast.Compare) and "crc32c(" in ast.unparse(node):
            differs = isinstance(node.ops[0], ast.NotEq)
            yield cut(node, "a checksum is not looked at", str(not differs))


def _named(file: str, source: str, order: Order | Fault) -> Mutation:
    assert source.count(order.old) == 1, f"{file} has changed: {order.what}"
    start = source.index(order.old)
    line = source.count("\n", 0, start) + 1
    tests = order.tests if isinstance(order, Fault) else ()
    return Mutation(file, line, order.what, order.old, order.new, start, tests)
