"""The generators of the pages of docs that are made from declarations: `make docs` runs them."""


def row(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |\n"
