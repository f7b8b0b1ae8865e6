"""Faults of the Spark sink: rows lost, or stored twice."""

from mutants.fault import Fault

TASK = "spark_connector/pyspark_magnetar/sink/task.py"
NUMBERED = "spark_connector/pyspark_magnetar/sink/numbered.py"
WRITTEN = ("tests/spark/sink/test_sink_task.py",)
KILLED = ("tests/spark/test_spark_exactly_once.py",)

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
        "        self._rows += rows.num_rows\n",
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
)
