"""The limits of the system for the processes of a broker."""

import resource
from collections.abc import Iterator

from magnetar_broker.commands.checks.finding import Finding

ENOUGH_FILES = 65_536
SUBJECT = "open files"


def check() -> Iterator[Finding]:
    """Check the hard limit, which counts because the broker raises its own limit up to it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= ENOUGH_FILES:
        yield Finding("ok", SUBJECT, f"the limit is {_shown(hard)}")
    else:
        yield Finding(
            "warning", SUBJECT,
            f"the limit is {hard}: each connection takes one, and each worker some hundred",
            f"raise it to {ENOUGH_FILES} (ulimit -Hn, LimitNOFILE= of systemd, --ulimit of Docker)",
        )  # fmt: skip
    size, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if size != resource.RLIM_INFINITY:
        yield Finding(
            "warning", "file size", f"no file may be larger than {size} bytes",
            "remove the limit (ulimit -f unlimited): a ledger has up to 2 GB unless configured",
        )  # fmt: skip


def _shown(limit: int) -> str:
    return "none" if limit == resource.RLIM_INFINITY else str(limit)
