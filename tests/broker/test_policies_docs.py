"""docs/policies.md says what the declarations say."""

from pathlib import Path

import pytest

from magnetar_broker.policies import TABLE
from magnetar_broker.server.admin.policies.docs import main, pages
from magnetar_broker.server.admin.policies.namespace import LINES as OF_NAMESPACES
from magnetar_broker.server.admin.policies.quotas import TYPES
from magnetar_broker.server.admin.policies.topic import LINES as OF_TOPICS

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, "run `make docs`"


def test_every_policy_can_be_said_where_its_declaration_says_so() -> None:
    quotas = set(TYPES.values())
    by_namespaces = {line.policy for line in OF_NAMESPACES} | quotas
    by_topics = {line.policy for line in OF_TOPICS} | quotas
    by_topics.add(TABLE["subscription_dispatch_rates"])
    assert by_namespaces == {policy for policy in TABLE.values() if policy.of_namespace}
    assert by_topics == {policy for policy in TABLE.values() if policy.of_topic}


def test_every_row_has_all_columns() -> None:
    rows = [line for line in "".join(pages()).splitlines() if line.startswith("| `")]
    assert len(rows) == len(TABLE)
    assert {row.count("|") for row in rows} == {6}
