"""Spark's workers must run the Python that has this package.

Without PYSPARK_PYTHON Spark starts `python3`.  Where that is another Python, a query fails far
away, and with a trace of Java.
"""

import os
import shutil
import sys
from pathlib import Path

VARIABLE = "PYSPARK_PYTHON"


def use_this_python() -> None:
    """Have the workers of sessions on this machine run this Python; call it in the driver.

    RuntimeError if a session is active, or the environment chooses, and the workers run another
    one that is on this machine.
    """
    from pyspark import SparkContext  # noqa: PLC0415 (not in workers)

    active = SparkContext._active_spark_context
    if active is None:
        os.environ.setdefault(VARIABLE, sys.executable)
    # What is not on this machine may be in the image of the executors.
    chosen = active.pythonExec if active is not None else os.environ[VARIABLE]
    found = shutil.which(chosen)
    if found is not None and not _is_this(found):
        raise RuntimeError(
            f"Spark's workers run {found}, which is another Python than this one: set {VARIABLE}="
            f"{sys.executable} before the session starts"
        )


def _is_this(executable: str) -> bool:
    """Whether it is this Python with the same packages: a virtual environment has its own path."""
    here, there = (Path(path).absolute() for path in (sys.executable, executable))
    return here.parent.resolve() == there.parent.resolve() and here.resolve() == there.resolve()
