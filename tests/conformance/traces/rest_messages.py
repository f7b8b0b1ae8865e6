"""Messages over REST: what is shown of them, with which headers, and bad input."""

from conformance.differences import differs
from conformance.rest_differences import BY_TIME, MIDDLE, REFUSED
from conformance.trace import Trace

FIRST = {"ledgerId": -1, "entryId": -1}


def a_message_that_is_peeked_at(t: Trace) -> None:
    t.publisher(2)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscription/sub/position/1")
    t.web("GET", f"{t.path}/subscription/sub/position/2")
    t.web("GET", f"{t.path}/subscription/sub/position/3")


def a_batch_that_is_peeked_at(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three messages")
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscription/sub/position/1")


def positions_that_are_none(t: Trace) -> None:
    t.publisher(1)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscription/sub/position/first")


@differs(REFUSED)
def positions_before_the_first(t: Trace) -> None:
    t.publisher(1)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscription/sub/position/0")
    t.web("GET", f"{t.path}/subscription/sub/position/-1")


def a_message_by_its_place(t: Trace) -> None:
    t.publisher(3)
    t.web("GET", f"{t.path}/examinemessage?initialPosition=earliest&messagePosition=1")
    t.web("GET", f"{t.path}/examinemessage?initialPosition=latest&messagePosition=1")
    t.web("GET", f"{t.path}/examinemessage")
    t.web("GET", f"{t.path}/examinemessage?initialPosition=earliest&messagePosition=2")


def places_that_are_none(t: Trace) -> None:
    t.publisher(1)
    t.web("GET", f"{t.path}/examinemessage?messagePosition=first")


@differs(MIDDLE)
def a_place_in_the_middle(t: Trace) -> None:
    t.publisher(1)
    t.web("GET", f"{t.path}/examinemessage?initialPosition=middle")


def a_message_by_its_id(t: Trace) -> None:
    a = t.publisher(2)
    number = str(a.published[0].ledgerId)
    t.roles.knows(f"ledger/{number}/", "ledger/L/")
    t.web("GET", f"{t.path}/ledger/{number}/entry/0")
    t.web("GET", f"{t.path}/ledger/{number}/entry/1")
    t.web("GET", f"{t.path}/ledger/{number}/entry/first")


@differs(REFUSED)
def an_entry_that_is_not_there(t: Trace) -> None:
    a = t.publisher(1)
    number = str(a.published[0].ledgerId)
    t.roles.knows(f"ledger/{number}/", "ledger/L/")
    t.web("GET", f"{t.path}/ledger/{number}/entry/7")


def the_last_message(t: Trace) -> None:
    t.publisher(2)
    t.web("GET", f"{t.path}/lastMessageId")


def messages_by_time(t: Trace) -> None:
    t.publisher(2)
    t.web("GET", f"{t.path}/messageid/yesterday")


@differs(BY_TIME)
def a_time_before_the_first_message(t: Trace) -> None:
    t.publisher(2)
    t.web("GET", f"{t.path}/messageid/0")


def the_size_of_a_backlog(t: Trace) -> None:
    t.publisher(2)
    t.web("PUT", f"{t.path}/backlogSize", FIRST, types=True)
    t.web("PUT", f"{t.path}/backlogSize", b"{")


def an_analysis_of_a_backlog(t: Trace) -> None:
    t.publisher(2)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("POST", f"{t.path}/subscription/sub/analyzeBacklog", types=True)
    t.web("POST", f"{t.path}/subscription/none/analyzeBacklog")
