"""Faults of the Spark source: messages lost, or read twice."""

from mutants.fault import Fault

PACKAGE = "spark_connector/pyspark_magnetar"
OFFSETS = ("tests/spark/test_spark_offsets.py",)
PLANNED = ("tests/spark/test_spark_planning.py",)
ROWS = ("tests/spark/test_spark_rows.py",)
COMPACTED = ("tests/spark/test_spark_compacted.py",)
LOSSES = ("tests/spark/test_spark_losses.py",)

SOURCE_FAULTS: tuple[Fault, ...] = (
    Fault(
        f"{PACKAGE}/offsets.py",
        "positions of a query go back with the broker's answer",
        "            positions[topic] = max(positions.get(topic, position), position)\n",
        "            positions[topic] = position\n",
        OFFSETS,
    ),
    Fault(
        f"{PACKAGE}/offsets.py",
        "messages of the first entry that lie before the start are read",
        "        if position is None or (began is not None and began.position == position):\n",
        "        if position is None:\n",
        OFFSETS,
    ),
    Fault(
        f"{PACKAGE}/planning.py",
        "what is behind the last cut of a range is given to no task",
        "    for end in (*dict.fromkeys(cuts), wanted.end):\n",
        "    for end in dict.fromkeys(cuts):\n",
        PLANNED,
    ),
    Fault(
        f"{PACKAGE}/planning.py",
        "a partition with little gets no share of the limit",
        "position_after(wanted, max(1, int(entries_in(wanted) * share)))",
        "position_after(wanted, int(entries_in(wanted) * share))"
        " if int(entries_in(wanted) * share) else wanted.start",
        PLANNED,
    ),
    Fault(
        f"{PACKAGE}/decoding.py",
        "heads of messages are not compared before they are cut off",
        "    return all(body[at::stride] == body[at : at + 1] * count for at in range(fixed))\n",
        "    return body[:fixed] == body[stride : stride + fixed]\n",
        ROWS,
    ),
    Fault(
        f"{PACKAGE}/columns.py",
        "batches of other strides are cut as the one before",
        "groupby(gathered.entries, lambda decoded: decoded.cut)",
        "groupby(gathered.entries, lambda decoded: decoded.cut and gathered.entries[0].cut)",
        ROWS,
    ),
    Fault(
        f"{PACKAGE}/columns.py",
        "messages of batches without ids of their own have the id of the batch",
        "return pc.add(_first_ids(gathered, kind), _batch_indexes(gathered, pa.int32()))",
        "return _first_ids(gathered, kind)",
        ROWS,
    ),
    Fault(
        f"{PACKAGE}/decoding.py",
        "messages that compaction removed from a batch are read",
        "    if any(about.compacted_out for about in scan.others.values()):\n",
        "    if not scan.others and places:\n",
        ROWS,
    ),
    Fault(
        f"{PACKAGE}/view.py",
        "the compacted view is not asked for",
        "            read_compacted=self.compacted,\n",
        "",
        COMPACTED,
    ),
    Fault(
        f"{PACKAGE}/losses.py",
        "the end of a compacted view is taken for that of a topic that was recreated",
        "        if NOTHING in (last, read) or self._view.compacted:\n",
        "        if NOTHING in (last, read):\n",
        COMPACTED,
    ),
    Fault(
        f"{PACKAGE}/reading.py",
        "a task waits for an entry that compaction has replaced",
        "            return (last.ledger, last.entry) <= self._at\n",
        "            return False\n",
        COMPACTED,
    ),
    Fault(
        f"{PACKAGE}/reading.py",
        "a gap of a compacted view is a loss",
        "        if self._view.compacted:\n            return\n",
        "",
        COMPACTED,
    ),
    Fault(
        f"{PACKAGE}/losses.py",
        "a ledger that was read and deleted while its query ran is a loss",
        "            if before[0] != position[0]:\n",
        "            if False:\n",
        LOSSES,
    ),
    Fault(
        f"{PACKAGE}/losses.py",
        "a ledger that came and went while a batch ran is no loss",
        "        if first.position[0] <= continued.get(read, read[0]):\n",
        "        if read in continued or first.position[0] <= read[0]:\n",
        LOSSES,
    ),
    Fault(
        f"{PACKAGE}/probing.py",
        "a partition whose first entry comes late has none",
        "                if not await _has_any(reader, at):\n",
        "                if True:\n",
        LOSSES,
    ),
    Fault(
        f"{PACKAGE}/reading.py",
        "a ledger that goes when all of it was read is a loss",
        "if self._at < end < first]",
        "if self._at <= end < first]",
        LOSSES,
    ),
    Fault(
        f"{PACKAGE}/tail.py",
        "a query of several topics ends with the first that is deleted",
        "all_exist=is_first",
        "all_exist=True",
        LOSSES,
    ),
)
