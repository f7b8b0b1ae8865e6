"""The log: one line a record, on standard error."""

import logging


def log_to_stderr(process: str | None = None) -> None:
    """Log from level INFO on; with the name of the process where there are several."""
    name = f"{process} " if process else ""
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s %(levelname)s {name}%(name)s: %(message)s",
        force=True,
    )
