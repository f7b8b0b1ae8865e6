"""Policies that have no effect on this broker: it stores and shows them, or refuses them."""

from dataclasses import replace

from magnetar.cli.admin.declarations import (
    Contradiction,
    Values,
    flag,
    option,
    whole_body,
)
from magnetar.cli.admin.groups.policies import Policy, replication
from magnetar.cli.admin.kinds import MILLISECONDS, NAMES, SECONDS, SIZE, one_of

DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
OFFLOAD_MEMBERS = "managedLedgerOffload"
OFFLOAD = Policy(
    "offload-policies",
    "the offloading of old data",
    "offloadPolicies",
    (
        option(
            "-d, --driver",
            "Where data go.",
            one_of(*DRIVERS),
            required=True,
            member=f"{OFFLOAD_MEMBERS}Driver",
        ),
        option("-b, --bucket", "Name of the bucket.", member=f"{OFFLOAD_MEMBERS}Bucket"),
        option("-r, --region", "Region of the bucket.", member=f"{OFFLOAD_MEMBERS}Region"),
        option(
            "-e, --endpoint", "Address of the service.", member=f"{OFFLOAD_MEMBERS}ServiceEndpoint"
        ),
        option("-i, --aws-id", "Id to log in.", member="s3ManagedLedgerOffloadCredentialId"),
        option(
            "-s, --aws-secret", "Secret to log in.", member="s3ManagedLedgerOffloadCredentialSecret"
        ),
        option("-ro, --s3-role", "Role there.", member="s3ManagedLedgerOffloadRole"),
        option(
            "-rsn, --s3-role-session-name",
            "Session of the role.",
            member="s3ManagedLedgerOffloadRoleSessionName",
        ),
        option(
            "-mbs, --maxBlockSize",
            "Largest block.",
            SIZE,
            member=f"{OFFLOAD_MEMBERS}MaxBlockSizeInBytes",
        ),
        option(
            "-rbs, --readBufferSize",
            "Buffer to read.",
            SIZE,
            member=f"{OFFLOAD_MEMBERS}ReadBufferSizeInBytes",
        ),
        option(
            "-oat, --offloadAfterThreshold",
            "From this size on.",
            SIZE,
            member=f"{OFFLOAD_MEMBERS}ThresholdInBytes",
        ),
        option(
            "-oats, --offloadAfterThresholdInSeconds",
            "From this age on.",
            SECONDS,
            member=f"{OFFLOAD_MEMBERS}ThresholdInSeconds",
        ),
        option(
            "-oae, --offloadAfterElapsed",
            "When the local copy goes.",
            MILLISECONDS,
            member=f"{OFFLOAD_MEMBERS}DeletionLagInMillis",
        ),
        option(
            "-orp, --offloadedReadPriority",
            "What is read first.",
            one_of("tiered-storage-first", "bookkeeper-first"),
            member="managedLedgerOffloadedReadPriority",
        ),
    ),
)
PAUSE = Policy(
    "dispatcher-pause-on-ack-state-persistent",
    "the pause of delivery while acknowledgements are stored",
    "dispatcherPauseOnAckStatePersistent",
    settable=True,
)
FILTERS = Policy(
    "entry-filters",
    "the filters of entries, which do not exist here",
    "entryFilters",
    (option("-efn, --entry-filters-name", "Names of classes.", NAMES, required=True),),
    lambda values: {"entryFilterNames": ",".join(values["entry_filters_name"])},
)
SHADOWS = Policy(
    "shadow-topics",
    "the shadows of a topic, which do not exist here",
    "shadowTopics",
    (option("-t, --topics", "Names of the topics.", NAMES, required=True),),
    whole_body("topics"),
    verb="PUT",
)


def _strategy(values: Values) -> object:
    if (values["compatibility"] is None) == (not values["disabled"]):
        raise Contradiction("give --compatibility or --disabled, one of them")
    return values["compatibility"] or "AutoUpdateDisabled"


def _groups(values: Values) -> object:
    return {
        "bookkeeperAffinityGroupPrimary": ",".join(values["primary_group"]),
        "bookkeeperAffinityGroupSecondary": ",".join(values["secondary_group"] or []),
    }


OF_NAMESPACES = (
    replace(OFFLOAD, removed_at="removeOffloadPolicies"),
    Policy(
        "offload-threshold",
        "the size from which on data are offloaded",
        "offloadThreshold",
        (
            option("-s, --size", "The size.", SIZE, default="-1"),
            option("-t, --time", "The age, which has a path of its own.", SECONDS),
        ),
        lambda values: values["size"] if values["time"] is None else values["time"],
        verb="PUT",
        removable=False,
        other_segment=("time", "offloadThresholdInSeconds"),
    ),
    Policy(
        "offload-deletion-lag",
        "the time after which the local copy of offloaded data is deleted",
        "offloadDeletionLagMs",
        (option("-l, --lag", "The time.", MILLISECONDS, required=True),),
        whole_body("lag"),
        verb="PUT",
        remove_name="clear-offload-deletion-lag",
    ),
    PAUSE,
    FILTERS,
    Policy(
        "bookie-affinity-group",
        "the groups of bookies",
        "persistence/bookieAffinity",
        (
            option("-pg, --primary-group", "First choice.", NAMES, required=True),
            option("-sg, --secondary-group", "Second choice.", NAMES),
        ),
        _groups,
        remove_name="delete-bookie-affinity-group",
    ),
    Policy(
        "anti-affinity-group",
        "the group of namespaces to keep apart",
        "antiAffinity",
        (option("-g, --group", "Name of the group.", required=True),),
        whole_body("group"),
        remove_name="delete-anti-affinity-group",
    ),
    replace(
        replication("allowed-clusters"),
        what="the clusters that are allowed",
        segment="allowedClusters",
        removable=False,
    ),
    Policy(
        "schema-autoupdate-strategy",
        "the former strategy for changes of schemas",
        "schemaAutoUpdateCompatibilityStrategy",
        (
            option("-c, --compatibility", "The strategy.", one_of("Full", "Backward", "Forward")),
            flag("-d, --disabled", "No automatic changes."),
        ),
        _strategy,
        verb="PUT",
        removable=False,
    ),
)
OF_TOPICS = (OFFLOAD, PAUSE, replace(FILTERS, name="entry-filters-per-topic"))
