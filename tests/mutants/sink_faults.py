"""Faults of the Spark sink: rows lost, or stored twice."""

from mutants.fault import Fault

TASK = "spark_connector/pyspark_magnetar/sink/task.py"
NUMBERED = "spark_connector/pyspark_magnetar/sink/numbered.py"
WRITTEN = ("tests/spark/sink/test_sink_task.py",)
KILLED = ("tests/spark/test_spark_exactly_once.py",)
COMMITTING = "spark_connector/pyspark_magnetar/sink/committing.py"
COMMITTED = ("tests/spark/sink/test_sink_committing.py",)

SINK_FAULTS: tuple[Fault, ...] = (
    Fault(
        TASK,
        "an attempt of a task sends what the one before has stored",
        "        known = bisect_right(ids, lane.last_sequence_id)\n",
        "        known = 0\n",
        WRITTEN,
    ),
    Fault(
        TASK,
        "an attempt sends what the one before has stored, and Spark runs it",
        "        known = bisect_right(ids, lane.last_sequence_id)\n",
        "        known = 0\n",
        KILLED,
    ),
    Fault(
        TASK,
        "the rows of every record batch have the same numbers",
        "        self.rows += rows.num_rows\n",
        "",
        WRITTEN,
    ),
    Fault(
        NUMBERED,
        "a broker that does not deduplicate is taken for one that does",
        "if lane.last_sequence_id != sequence_id:",
        "if lane.last_sequence_id > sequence_id:",
        WRITTEN,
    ),
    Fault(
        "spark_connector/pyspark_magnetar/sink/lanes.py",
        "a task ends although a message was refused",
        "            self.last_id = first.result()\n",
        "            self.last_id = None if first.exception() else first.result()\n",
        ("tests/spark/sink/test_sink_lanes.py",),
    ),
    Fault(
        "spark_connector/pyspark_magnetar/sink/columns.py",
        "event times are sent in microseconds",
        "else millis(column)",
        "else column.cast(pa.int64())",
        WRITTEN,
    ),
    Fault(
        COMMITTING,
        "a partition is committed although an earlier driver has committed it",
        "        if partition in self._marks:\n",
        "        if False:\n",
        COMMITTED,
    ),
    Fault(
        COMMITTING,
        "a partition is committed although an earlier driver, which was killed, has committed it",
        "        if partition in self._marks:\n",
        "        if False:\n",
        KILLED,
    ),
    Fault(
        COMMITTING,
        "what an earlier driver has announced can be committed later",
        "                await gather_all(self._log.abort(txn) for txn in earlier)\n",
        "",
        COMMITTED,
    ),
    Fault(
        COMMITTING,
        "what an earlier driver committed behind this one's announcement is not seen",
        "        if self._is_taken_over:\n",
        "        if False:\n",
        COMMITTED,
    ),
    Fault(
        COMMITTING,
        "a batch that is behind the log is committed once more",
        "        if record.batch > about.batch:\n",
        "        if False:\n",
        COMMITTED,
    ),
    Fault(
        COMMITTING,
        "other rows than before are committed to the rest of a batch",
        "        if (rows, len(self.filled)) != (mark.rows, mark.partitions):\n",
        "        if False:\n",
        COMMITTED,
    ),
    Fault(
        COMMITTING,
        "marks of a batch are forgotten if a driver behind it has announced after them",
        "            if not has_begun:\n",
        "            if record.batch < self._announcement.batch:\n",
        COMMITTED,
    ),
    Fault(
        TASK,
        "the transaction of a task that failed stays open",
        "            closing.append(self._txn.close())\n",
        "            pass\n",
        WRITTEN,
    ),
    Fault(
        "spark_connector/pyspark_magnetar/sink/lanes.py",
        "batches of rows are stored outside of the transaction",
        "producer.send_packed(entry, self._txn)",
        "producer.send_packed(entry)",
        WRITTEN,
    ),
)
