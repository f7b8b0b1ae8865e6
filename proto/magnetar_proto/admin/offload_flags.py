"""The flags of the policy of offloading, whose names differ between namespaces and topics."""

from magnetar_proto.admin.endpoint import Parameter, member
from magnetar_proto.admin.kinds import MILLISECONDS, SECONDS, SIZE, TEXT, one_of

# fmt: off
DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob")
_OFFLOAD = "managedLedgerOffload"
_S3 = "s3ManagedLedgerOffload"


def _flags(
    blocks: str, buffers: str, size: str, seconds: str, lag: str
) -> tuple[Parameter, ...]:
    """Return the flags of a level; the arguments are the names that differ between the levels."""
    return (
        member(f"{_OFFLOAD}Driver", "-d, --driver", one_of(*DRIVERS), "The kind of storage.",
            required=True),
        member(f"{_OFFLOAD}Bucket", "-b, --bucket", TEXT, "Name of the bucket, or bucket/prefix."),
        member(f"{_OFFLOAD}Region", "-r, --region", TEXT, "Region of the bucket."),
        member(f"{_OFFLOAD}ServiceEndpoint", "-e, --endpoint", TEXT, "URL of the service."),
        member(f"{_S3}CredentialId", "-i, --aws-id", TEXT, "Refused: see the broker's settings."),
        member(f"{_S3}CredentialSecret", "-s, --aws-secret", TEXT,
            "Refused: see the broker's settings."),
        member(f"{_S3}Role", "-ro, --s3-role", TEXT, "Refused: see the broker's settings."),
        member(f"{_S3}RoleSessionName", "-rsn, --s3-role-session-name", TEXT,
            "Stored without effect."),
        member(f"{_OFFLOAD}MaxBlockSizeInBytes", blocks, SIZE, "Stored without effect."),
        member(f"{_OFFLOAD}ReadBufferSizeInBytes", buffers, SIZE, "Stored without effect."),
        member(f"{_OFFLOAD}ThresholdInBytes", size, SIZE,
            "Size above which the oldest closed ledgers are offloaded."),
        member(f"{_OFFLOAD}ThresholdInSeconds", seconds, SECONDS,
            "Age at which a closed ledger is offloaded."),
        member(f"{_OFFLOAD}DeletionLagInMillis", lag, MILLISECONDS,
            "Time until the file of an offloaded ledger is deleted."),
        member("managedLedgerOffloadedReadPriority", "-orp, --offloadedReadPriority",
            one_of("tiered-storage-first", "bookkeeper-first"), "Which copy is read."),
    )


OFFLOAD_FLAGS = {
    "namespace": _flags(
        "-mbs, --maxBlockSize", "-rbs, --readBufferSize", "-oat, --offloadAfterThreshold",
        "-oats, --offloadAfterThresholdInSeconds", "-oae, --offloadAfterElapsed",
    ),
    "topic": _flags(
        "-m, --maxBlockSizeInBytes", "-rb, --readBufferSizeInBytes",
        "-t, --offloadThresholdInBytes", "-ts, --offloadThresholdInSeconds",
        "-dl, --offloadDeletionLagInMillis",
    ),
}
