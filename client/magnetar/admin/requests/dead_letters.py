"""Requests about the dead letter and retry topics of a subscription."""

from magnetar.admin.requests.messages import Found, found_of
from magnetar.admin.requests.request import Figures, Query, Request, ask, given


def topics(topic: str, subscription: str) -> Request[list[Figures]]:
    """List the topics that exist: `topic`, `kind` (DLQ or RETRY), `messages`, `bytes` ..."""
    return ask("messages.dead_letters.topics", topic, subscription, result=list)


def messages(
    topic: str,
    subscription: str,
    *,
    kind: str = "DLQ",
    key: str | None = None,
    property: str | None = None,
    start: str | None = None,
    limit: int = 100,
    scan: int = 10_000,
    payload: int = 1024,
) -> Request[Found]:
    """Search the topic of this kind; the arguments are those of `messages.search`."""
    query: Query = given(
        **{"from": start},
        kind=kind,
        key=key,
        property=property,
        limit=limit,
        scan=scan,
        payload=payload,
    )
    return ask(
        "messages.dead_letters.dead_letters", topic, subscription, query=query, result=found_of
    )


def replay(
    topic: str,
    subscription: str,
    *,
    kind: str = "DLQ",
    dead_letter_topic: str | None = None,
    key: str | None = None,
    property: str | None = None,
    start: str | None = None,
    limit: int = 100,
    scan: int = 10_000,
    messages_per_s: int = 100,
    dry_run: bool = False,
) -> Request[Figures]:
    """Publish dead letters to their topic again: `matched`, `replayed`, `skipped`, `next` ...

    They stay in the dead letter topic; give its name if it is not one of the usual names.  With
    `dry_run` they are only counted.
    """
    body = {
        "kind": kind,
        "topic": dead_letter_topic,
        "key": key,
        "property": property,
        "from": start,
        "limit": limit,
        "scan": scan,
        "rate": messages_per_s,
        "dryRun": dry_run,
    }
    sent = {name: value for name, value in body.items() if value is not None}
    return ask("messages.dead_letters.replay", topic, subscription, body=sent, result=dict)
