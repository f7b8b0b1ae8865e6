"""docs/policies.md is generated from the declarations."""

from pathlib import Path

from pages.policies import pages

from magnetar_broker.policies.table import TABLE
from magnetar_broker.server.admin.policies.quotas import TYPES
from magnetar_proto.admin.policy import SpecialPath

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == "".join(pages()), "run `make docs`"


def test_special_paths_are_those_of_the_handlers_written_by_hand() -> None:
    rates = TABLE["subscription_dispatch_rates"]
    by_hand = {(policy, level) for policy in TYPES.values() for level in ("namespace", "topic")}
    declared = {
        (policy, level)
        for policy in TABLE.values()
        for level in ("namespace", "topic")
        if isinstance(getattr(policy.declared, level), SpecialPath)
    }
    group = TABLE["resource_group"]
    assert declared == {*by_hand, (rates, "topic"), (group, "namespace")}


def test_every_row_has_all_columns() -> None:
    rows = [line for line in "".join(pages()).splitlines() if line.startswith("| `")]
    assert len(rows) == len(TABLE)
    assert {row.count("|") for row in rows} == {6}
