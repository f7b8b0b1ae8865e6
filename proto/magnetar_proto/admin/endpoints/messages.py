"""Messages of topics: shown, searched and found."""

from magnetar_proto.admin import bodies
from magnetar_proto.admin.endpoint import BODY, CONSUME, OWNER, endpoint, option
from magnetar_proto.admin.endpoints.shared import RANGE
from magnetar_proto.admin.kinds import MOMENT, NUMBER, POSITION, one_of

# fmt: off

ENDPOINTS = (
    endpoint("messages.reading.peek", "GET {topic}/subscription/{subscription}/position/{position}",
        CONSUME, "Show the next messages of a subscription, without delivering them.",
        "topics peek-messages, subscriptions peek-messages",
        option("count", "-n, --count", NUMBER, "How many.", default="1", local=True), runs=OWNER),
    endpoint("messages.reading.by_id", "GET {topic}/ledger/{ledger}/entry/{entry}", CONSUME,
        "Show a message by its id.", "topics get-message-by-id",
        option("ledger", "-l, --ledgerId", NUMBER, "Its ledger.", required=True),
        option("entry", "-e, --entryId", NUMBER, "Its entry.", required=True), runs=OWNER),
    endpoint("messages.reading.examine", "GET {topic}/examinemessage", CONSUME,
        "Show a message by its place from the beginning or end.", "topics examine-messages",
        option("initialPosition", "-i, --initialPosition", one_of("latest", "earliest"),
            "From where.", default="latest"),
        option("messagePosition", "-m, --messagePosition", NUMBER, "The place, 1 is the first.",
            default="1"), runs=OWNER),
    endpoint("messages.reading.last_id", "GET {topic}/lastMessageId", CONSUME,
        "Show the id of the last message.", "topics last-message-id", runs=OWNER),
    endpoint("messages.reading.id_since", "GET {topic}/messageid/{timestamp}", CONSUME,
        "Show the id of the first message published at or after a time.", "topics get-message-id",
        option("timestamp", "-d, --datetime", MOMENT, "Such as 2026-01-31T16:53:08Z.",
            required=True), runs=OWNER),
    endpoint("messages.reading.id_of_index", "GET {topic}/getMessageIdByIndex", CONSUME,
        "Show the id of the message with an index.", "topics get-message-id-by-index",
        option("index", "-i, --index", NUMBER, "The index.", required=True), runs=OWNER),
    endpoint("messages.reading.backlog_size", "PUT {topic}/backlogSize", CONSUME,
        "Show how many bytes are stored from a message on.", "topics get-backlog-size",
        option(BODY, "-m, --messageId", POSITION, "The message.", default="earliest"),
        body=bodies.PLACE, runs=OWNER, reads=True),
    endpoint("messages.reading.analyze", "POST {topic}/subscription/{subscription}/analyzeBacklog",
        CONSUME, "Read the backlog of a subscription, and count what is in it.",
        "topics analyze-backlog, subscriptions analyze-backlog",
        option(BODY, "-p, --position", POSITION, "From this message on."), body=bodies.FROM,
        runs=OWNER, reads=True),
    endpoint("messages.reading.backlogs", "GET {topic}/backlog", CONSUME,
        "Show what a topic stores, and the backlogs of its subscriptions.", "topics backlogs",
        runs=OWNER),
    endpoint("messages.searches.search", "GET {topic}/search", CONSUME,
        "Show the messages of a topic with a key or a property.", "topics search", *RANGE,
        runs=OWNER),
)
