"""The subjects of log records, as fields of the record: formatters for JSON show them."""

from typing import Any


def about(**fields: object) -> dict[str, Any]:
    """Return the `extra` of a log call: each field as text, its name prefixed with `pulsar_`."""
    return {f"pulsar_{name}": str(value) for name, value in fields.items()}
