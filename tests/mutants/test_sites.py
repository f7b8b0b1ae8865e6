"""What `make mutants` takes out is still there: it runs too rarely to notice."""

import ast
from pathlib import Path

from mutants.__main__ import of_storage
from mutants.faults import FAULTS
from mutants.sites import ORDERS, mutations

ROOT = Path(__file__).resolve().parents[2]


def test_every_named_order_and_fault_is_found_once() -> None:
    found = [one.what for one in mutations(ROOT)]
    named = [order.what for order in ORDERS] + [fault.what for fault in FAULTS]
    assert [found.count(what) for what in named] == [1] * len(named)


def test_every_fault_has_tests_that_should_notice_it() -> None:
    for fault in FAULTS:
        assert fault.tests, fault
        assert all((ROOT / test).is_file() for test in fault.tests), fault


def test_mutants_of_storage_are_shown_to_all_its_tests() -> None:
    shown = of_storage(ROOT)
    assert len(shown) == len(set(shown))
    assert set(shown) == set((ROOT / "tests/storage").rglob("test_*.py"))


def test_every_mutant_is_another_program() -> None:
    found = mutations(ROOT)
    assert {"is left out", "does not sync"} <= {one.what.split(maxsplit=1)[1] for one in found}
    for one in found:
        source = (ROOT / one.file).read_text()
        mutant = one.apply(source)
        assert ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(source)), one
