"""One target under Atheris, in a process of its own: `python -m fuzz.engine <target> <options>`.

A failing input is stored once for each kind of failure, and fuzzing continues.  What ends the
process (a hang, too much memory, a crash of a library) is stored by libFuzzer.
"""

import logging
import resource
import sys
from pathlib import Path
from traceback import extract_tb

import atheris

from fuzz.corpus import PACKAGES, WORK, target

MEMORY_BYTES = 3 << 30
"""Beyond this an allocation fails, which is a finding."""


def main() -> None:
    name, *options = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable(logging.WARNING)
    with atheris.instrument_imports(
        include=list(PACKAGES), exclude=["magnetar_proto.PulsarApi_pb2"]
    ):
        module = target(name)
    findings = WORK / name / "findings"

    def one(data: bytes) -> None:
        try:
            module.run(data)
        except Exception as error:
            path = findings / signature(error)
            if not path.exists() or path.stat().st_size > len(data):
                path.write_bytes(data)

    corpus = WORK / name / "corpus"
    atheris.Setup(
        [
            name, str(corpus), f"-max_len={module.LONGEST}", f"-artifact_prefix={findings}/",
            "-timeout=60", "-rss_limit_mb=1500", "-print_final_stats=1", "-verbosity=1", *options,
        ],
        one,
    )  # fmt: skip
    atheris.Fuzz()


def signature(error: Exception) -> str:
    """A key that failures of one cause share: their type, and where in our code."""
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.name != "one"]
    ours = [frame for frame in frames if any(f"/{name}/" in frame.filename for name in PACKAGES)]
    last = (ours or frames)[-1]
    seen = frames[0] if len(frames) == 1 else next(f for f in frames if "fuzz/" in f.filename)
    place = f"{Path(last.filename).stem}-{last.lineno}"
    return f"{type(error).__name__}-{place}-seen-{seen.lineno}"


if __name__ == "__main__":
    main()
