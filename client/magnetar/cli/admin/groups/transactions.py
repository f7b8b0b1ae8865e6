"""`magnetar admin transactions`."""

from magnetar.cli.admin.declarations import Command, flag, option
from magnetar.cli.admin.kinds import MILLISECONDS, NUMBER, TOPIC

PATH = "/admin/v3/transactions"
MOST = option("-m, --most-sig-bits", "Id of its coordinator.", NUMBER, required=True)
LEAST = option("-l, --least-sig-bits", "Its number there.", NUMBER, required=True)
OF = "{most_sig_bits}/{least_sig_bits}"
ID = "-c, --coordinator-id"
ONE = option(ID, "This coordinator only.", NUMBER, query="coordinatorId")

OF_TOPIC = option("-t, --topic", "Name of the topic, or of one partition.", TOPIC, required=True)
OF_SUBSCRIPTION = option("-s, --sub-name", "Name of the subscription.", required=True)
LOWS = flag("-l, --low-water-mark", "With low watermarks.", query="lowWaterMarks")
METADATA = flag("-m, --metadata", "Each segment with its part of the record.", query="metadata")
IN = "{topic:name}/{sub_name}"


COMMANDS = (
    Command("coordinators-list", "List the coordinators.", "GET", f"{PATH}/coordinators"),
    Command(
        "coordinator-stats",
        "Show figures of the coordinators.",
        "GET",
        f"{PATH}/coordinatorStats",
        (ONE,),
    ),
    Command(
        "coordinator-internal-stats",
        "Show where a coordinator has stored its log.",
        "GET",
        f"{PATH}/coordinatorInternalStats/{{coordinator_id}}",
        (
            option(ID, "Id of the coordinator.", NUMBER, required=True),
            flag("-m, --metadata", "Each segment with its part of the record.", query="metadata"),
        ),
    ),
    Command(
        "scale-transactionCoordinators",
        "Have more coordinators.",
        "POST",
        f"{PATH}/transactionCoordinator/replicas",
        (option("-r, --replicas", "How many.", NUMBER, required=True),),
        body=lambda values: values["replicas"],
    ),
    Command(
        "slow-transactions",
        "Show the transactions that have been open for some time.",
        "GET",
        f"{PATH}/slowTransactions/{{time}}",
        (option("-t, --time", "The time: 10 (seconds), 5m.", MILLISECONDS, required=True), ONE),
    ),
    Command(
        "transaction-metadata",
        "Show an open transaction, and what it concerns.",
        "GET",
        f"{PATH}/transactionMetadata/{OF}",
        (MOST, LEAST),
    ),
    Command(
        "abort-transaction",
        "Abort an open transaction.",
        "POST",
        f"{PATH}/abortTransaction/{OF}",
        (MOST, LEAST),
    ),
    Command(
        "transaction-buffer-stats",
        "Show the transactions of a topic.",
        "GET",
        f"{PATH}/transactionBufferStats/{{topic:name}}",
        (OF_TOPIC, LOWS),
    ),
    Command(
        "transaction-buffer-internal-stats",
        "Show where the state of a topic's transactions is stored.",
        "GET",
        f"{PATH}/transactionBufferInternalStats/{{topic:name}}",
        (OF_TOPIC, METADATA),
    ),
    Command(
        "transaction-in-buffer-stats",
        "Show what a topic knows of a transaction.",
        "GET",
        f"{PATH}/transactionInBufferStats/{{topic:name}}/{OF}",
        (MOST, LEAST, OF_TOPIC),
    ),
    Command(
        "pending-ack-stats",
        "Show the transactions of a subscription.",
        "GET",
        f"{PATH}/pendingAckStats/{IN}",
        (OF_TOPIC, OF_SUBSCRIPTION, LOWS),
    ),
    Command(
        "pending-ack-internal-stats",
        "Show where the pending acknowledgements of a subscription are stored.",
        "GET",
        f"{PATH}/pendingAckInternalStats/{IN}",
        (OF_TOPIC, OF_SUBSCRIPTION, METADATA),
    ),
    Command(
        "transaction-in-pending-ack-stats",
        "Show what a transaction has acknowledged of a subscription.",
        "GET",
        f"{PATH}/transactionInPendingAckStats/{IN}/{OF}",
        (MOST, LEAST, OF_TOPIC, OF_SUBSCRIPTION),
    ),
    Command(
        "position-stats-in-pending-ack",
        "Show whether a message is pending in a transaction.",
        "GET",
        f"{PATH}/positionStatsInPendingAck/{IN}/{{ledger_id}}/{{entry_id}}",
        (
            OF_TOPIC,
            OF_SUBSCRIPTION,
            option("-l, --ledger-id", "Its ledger.", NUMBER, required=True),
            option("-e, --entry-id", "Its entry.", NUMBER, required=True),
            option("-b, --batch-index", "Its index in its batch.", NUMBER, query="batchIndex"),
        ),
    ),
)
