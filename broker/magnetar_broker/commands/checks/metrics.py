"""The metrics of the running broker: stalled subscriptions, and certificates that expire."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import click

from magnetar_broker.commands.asking import Ask
from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.server.tls.contexts import WARNING_SECONDS

PATH = "/metrics"
SECONDS = 60.0
SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
STALLED = "magnetar_subscription_stalled"
BLOCKER = "magnetar_subscription_blocker"
DAMAGED = "magnetar_damaged_entries"
EXPIRES = "magnetar_tls_certificate_expiry_timestamp_seconds"
MOST_NAMES = 3
"""The most subscriptions that are named; the others are counted."""


def check(admin_url: str, ask: Ask) -> Iterator[Finding]:
    """Yield findings about stalled subscriptions, unreadable entries and certificates."""
    try:
        page = str(ask(admin_url, PATH, timeout_s=SECONDS))
    except click.ClickException as error:
        yield Finding("note", "subscriptions", f"not checked: {error}")
        return
    yield from of_page(page)


def of_page(page: str) -> Iterator[Finding]:
    """Yield the findings in a page of metrics."""
    stalled = Counter[str]()
    blocked = defaultdict[str, list[str]](list)
    for name, text, value in SAMPLE.findall(page):
        if name not in (STALLED, BLOCKER, DAMAGED, EXPIRES):
            continue
        labels = dict(LABEL.findall(text))
        if name == STALLED:
            stalled[labels["blocker"]] += int(float(value))
        elif name == BLOCKER:
            blocked[labels["blocker"]].append(f"{labels['subscription']} of {labels['topic']}")
        elif name == DAMAGED:
            yield from _of_damage(int(float(value)))
        else:
            yield from _of_certificate(float(value) - time.time())
    yield from _of_subscriptions(stalled, blocked)


def _of_subscriptions(
    stalled: Counter[str], blocked: defaultdict[str, list[str]]
) -> Iterator[Finding]:
    if not stalled.total():
        yield Finding("ok", "subscriptions", "none is stalled")
    for blocker, count in stalled.items():
        if not count:
            continue
        # They have the same reason, but perhaps for a shorter time than makes a stall.
        names = blocked[blocker]
        rest = len(names) - MOST_NAMES
        among = ", ".join(names[:MOST_NAMES]) + (f" and {rest} others" if rest > 0 else "")
        text = f"{count} stalled ({blocker}){among and ': '}{among}"
        if blocker == Blocker.DAMAGE:
            yield Finding(
                "error", "damage", f"{text}: the next entries cannot be read",
                "magnetar admin topics damaged TOPIC lists them, and skip-damaged sets them aside",
            )  # fmt: skip
        else:
            yield Finding(
                "warning", "subscriptions", text,
                "magnetar admin subscriptions explain-delivery TOPIC SUBSCRIPTION says what to do",
            )  # fmt: skip


def _of_damage(entries: int) -> Iterator[Finding]:
    if entries:
        yield Finding(
            "error", "damage", f"{entries} stored entries cannot be read",
            "GET /admin/v2/brokers/health?detailed=true names their topics; restore the files, or "
            "set the entries aside: magnetar admin topics skip-damaged TOPIC",
        )  # fmt: skip


def _of_certificate(seconds: float) -> Iterator[Finding]:
    if seconds < WARNING_SECONDS:
        when = "has expired" if seconds < 0 else f"expires in {int(seconds // 86_400)} days"
        yield Finding(
            "error" if seconds < 0 else "warning", "TLS", f"the certificate in use {when}",
            "replace certificate and key; a broker that runs uses them within minutes",
        )  # fmt: skip
