"""What log records are about, as fields of the record: formatters for JSON show them."""

from typing import Any


def about(**fields: object) -> dict[str, Any]:
    """The `extra` of a log call: each field as text, under its name with `pulsar_` before it."""
    return {f"pulsar_{name}": str(value) for name, value in fields.items()}
