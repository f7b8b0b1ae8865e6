"""The connector reaches the executors in an archive: `spark-submit --archives`."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from running_broker import RunningBroker
from spark.source_driver import new_topic

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("archived_job.py")
ROWS = 1000
SHIPPED = ("magnetar", "pyarrow", "psutil")
"""What the archive contains with its dependencies; psutil is for the job's own question."""
CLEAN = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))
}


def required(names: tuple[str, ...]) -> dict[str, Distribution]:
    """The installed distributions of these names, and all that they need without extras."""
    found: dict[str, Distribution] = {}
    left = list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # one for another platform
        wanted = [line for line in found[name].requires or () if "extra ==" not in line]
        left += [match[0] for line in wanted if (match := re.match(r"[\w.-]+", line))]
    return found


def packed_environment(directory: Path) -> Path:
    """The environment of docs/spark.md, with dependencies from this one instead of an index."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT],
        env=CLEAN | {"MAGNETAR_BUILD": "pure"},
        capture_output=True,
        check=True,
    )
    (wheel,) = directory.glob("*.whl")
    environment = directory / "env"
    subprocess.run([sys.executable, "-m", "venv", environment], env=CLEAN, check=True)
    subprocess.run(
        [
            environment / "bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            wheel,
        ],
        env=CLEAN,
        check=True,
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    needed = required(SHIPPED)
    del needed["magnetar"]  # the wheel
    for one in needed.values():
        for path in one.files or ():
            if ".." not in path.parts and path.suffix != ".pyc":
                (packages / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(one.locate_file(path)), packages / path)
    archive = directory / "env.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(environment, ".")
    return archive


def test_executors_read_and_write_with_the_python_of_the_archive(
    broker: RunningBroker, tmp_path: Path, spark_home: Path
) -> None:
    archive = packed_environment(tmp_path)
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "environment").symlink_to(tmp_path / "env")
    run = subprocess.run(
        [
            spark_home / "bin/spark-submit", "--master", "local-cluster[2,1,1024]",
            "--archives", f"{archive}#environment",
            JOB, broker.service_url, new_topic(), str(ROWS),
        ],
        env=CLEAN
        | {
            "PYSPARK_PYTHON": "./environment/bin/python",
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=driver,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert sorted(map(int, found["values"])) == list(range(ROWS))
    assert len({directory for directory, *_ in found["places"]}) == 2
    for directory, pythons, executable, connector in found["places"]:
        # All of its Pythons, because the source's tasks need not run that of functions.
        assert {tuple(one) for one in pythons} == {("./environment/bin/python", directory)}
        assert executable == f"{directory}/environment/bin/python"
        assert connector.startswith(f"{directory}/environment/lib/")
        assert Path(directory).is_relative_to(spark_home / "work")
