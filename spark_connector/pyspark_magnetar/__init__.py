"""A Structured Streaming source and sink for brokers that speak the Pulsar protocol.

PySpark imports every module named `pyspark_*` to look for data sources: once the package is
installed, `format("pulsar")` works.  Therefore nothing heavy is imported here.
"""

from pyspark_magnetar.extras import require

require("pyspark.sql.datasource")

from pyspark_magnetar.data_source import DefaultSource, MagnetarSource  # noqa: E402
from pyspark_magnetar.workers_python import check_workers_python, use_this_python  # noqa: E402

check_workers_python()

__all__ = ["DefaultSource", "MagnetarSource", "use_this_python"]
