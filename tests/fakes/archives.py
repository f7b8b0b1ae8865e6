"""Sample directories that are kept as archives."""

import tarfile
from pathlib import Path


def unpack(archive: Path, directory: Path) -> None:
    """Extract one of our archives, on every Python that the project supports."""
    with tarfile.open(archive) as files:
        if hasattr(tarfile, "data_filter"):  # not before Python 3.11.4
            files.extractall(directory, filter="data")
        else:
            files.extractall(directory)
