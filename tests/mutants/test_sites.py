"""What `make mutants` takes out is still there to be taken out: it runs too rarely to tell."""

import ast
from pathlib import Path

from mutants.sites import ORDERS, PACKAGE, mutations

ROOT = Path(__file__).resolve().parents[2]


def test_every_named_order_is_found_once() -> None:
    found = [one.what for one in mutations(ROOT)]
    assert [found.count(order.what) for order in ORDERS] == [1] * len(ORDERS)


def test_every_mutant_is_another_program() -> None:
    found = mutations(ROOT)
    assert {"is left out", "does not sync"} <= {one.what.split(maxsplit=1)[1] for one in found}
    for one in found:
        source = (ROOT / PACKAGE / one.file).read_text()
        mutant = one.apply(source)
        assert ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(source)), one
