"""`python -m conformance.docs` writes into docs/differences.md what the traces show."""

from collections.abc import Iterable
from pathlib import Path

from conformance.differences import Difference
from conformance.groups import all_traces

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
BEGIN = "<!-- begin: made by `make docs` from tests/conformance -->\n"
END = "<!-- end -->\n"
HEAD = "| what | Pulsar | Magnetar |\n|---|---|---|\n"


def page() -> str:
    """The page with its made part again."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + _tables() + END + after


def _tables() -> str:
    found = dict.fromkeys(trace.difference for trace in all_traces())
    shown = sorted(difference for difference in found if difference is not None)
    ours = _table(difference for difference in shown if difference.on_purpose)
    missing = _table(difference for difference in shown if not difference.on_purpose)
    return f"\nOn purpose:\n\n{ours}\nNot built yet:\n\n{missing}\n"


def _table(differences: Iterable[Difference]) -> str:
    rows = [f"| {d.what} | {d.pulsar} | {d.magnetar} |\n" for d in differences]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
