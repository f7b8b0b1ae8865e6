"""What the broker itself counts as backlogs."""

import urllib.request
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families


def differences(http_url: str, expected: Mapping[tuple[str, str], int | None]) -> list[str]:
    """Where they are not what they should be; the topics have no subscriptions but these.

    None stands for a backlog that is not known.
    """
    with urllib.request.urlopen(f"{http_url}/metrics") as page:
        families = text_string_to_metric_families(page.read().decode())
    found = {
        (sample.labels["topic"], sample.labels["subscription"]): int(sample.value)
        for family in families
        if family.name == "pulsar_subscription_back_log"
        for sample in family.samples
    }
    wrong = [
        f"{topic} {name}: {found.get((topic, name))} instead of {count}"
        for (topic, name), count in expected.items()
        if count is not None and found.get((topic, name)) != count
    ]
    topics = {topic for topic, _ in expected}
    strange = [
        f"{topic} {name}: is not to be there"
        for topic, name in found.keys() - expected.keys()
        if topic in topics
    ]
    return wrong + strange
