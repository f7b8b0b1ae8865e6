"""`magnetar admin transactions`."""

from magnetar.admin.declarations import Command, flag, option
from magnetar.admin.kinds import MILLISECONDS, NUMBER

PATH = "/admin/v3/transactions"
MOST = option("-m, --most-sig-bits", "Id of its coordinator.", NUMBER, required=True)
LEAST = option("-l, --least-sig-bits", "Its number there.", NUMBER, required=True)
OF = "{most_sig_bits}/{least_sig_bits}"
ID = "-c, --coordinator-id"
ONE = option(ID, "This coordinator only.", NUMBER, query="coordinatorId")


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
)
