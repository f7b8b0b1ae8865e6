"""The choice of a Python for Spark's workers that has this package.

Without PYSPARK_PYTHON Spark starts `python3`.  If that is another Python, a query fails late, and
with a stack trace of Java.
"""

import os
import shutil
import subprocess  # nosec B404
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

VARIABLE = "PYSPARK_PYTHON"
DRIVER_VARIABLE = "PYSPARK_DRIVER_PYTHON"
"""The variable that makes a source found by Spark itself run this Python, also in tasks."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit sets; its JVM has read the environment already."""
DEFAULT = "python3"
FINDS_US = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({__package__!r}))"


def use_this_python() -> None:
    """Make the workers of sessions on this machine run this Python; call it in the driver.

    RuntimeError if a session is active, or the environment chooses, and the workers run another
    Python that is on this machine.
    """
    active = _active_context()
    if active is None:
        os.environ.setdefault(VARIABLE, sys.executable)
    # A Python that is not on this machine may be in the image of the executors.
    found = shutil.which(active.pythonExec if active is not None else os.environ[VARIABLE])
    if found is not None and not _is_this(found):
        raise RuntimeError(_remedy(found, "is another Python than this one"))


def check_workers_python() -> None:
    """Set the workers' Python in a driver whose environment names none, if it has no connector.

    RuntimeError if it is too late for that, because Spark's JVM was started before.  A Python with
    the connector is left alone, and so is one that the environment names if no session runs it.
    """
    # The other variable may name a program that only starts a driver, such as jupyter; which of
    # the two Spark runs then depends on how the source is registered.
    if _in_worker() or DRIVER_VARIABLE in os.environ:
        return
    active = _active_context()
    is_settled = active is not None or SUBMITTED in os.environ
    if VARIABLE in os.environ and not is_settled:
        return
    named = active.pythonExec if active is not None else os.environ.get(VARIABLE, DEFAULT)
    found = shutil.which(named)
    if found is None or _is_this(found) or _has_connector(found):
        return
    if is_settled:
        raise RuntimeError(_remedy(found, f"has no {__package__}"))
    # The workers' Python plans a source on this machine: no query could use the other one.
    os.environ[VARIABLE] = sys.executable


def _remedy(found: str, fault: str) -> str:
    return (
        f"Spark's workers run {found}, which {fault}: set {VARIABLE}={sys.executable} "
        "before the session starts"
    )


def _in_worker() -> bool:
    """Tell whether Spark started this process: `python -m pyspark.daemon`, or a worker itself."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def _active_context() -> "SparkContext | None":
    from pyspark.util import is_remote_only  # noqa: PLC0415 (not in workers)

    if is_remote_only():
        return None
    from pyspark import SparkContext  # noqa: PLC0415 (not in workers)

    return SparkContext._active_spark_context


def _is_this(executable: str) -> bool:
    """Return whether an executable is this Python with the same packages."""
    here, there = (Path(path).absolute() for path in (sys.executable, executable))
    return here.parent.resolve() == there.parent.resolve() and here.resolve() == there.resolve()


def _has_connector(executable: str) -> bool:
    # Spark would start it, too.
    asked = subprocess.run(  # nosec B603
        [executable, "-c", FINDS_US], capture_output=True, check=False
    )
    return asked.returncode == 0
