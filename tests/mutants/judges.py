"""The tests that judge a mutation of a source: those that mirror it, and others that cover it."""

import re
from pathlib import Path, PurePath

MIRRORS = {
    "proto": "tests/proto",
    "storage": "tests/storage",
    "broker": "tests/broker",
    "client": "tests/client",
    "spark_connector": "tests/spark",
}
STORAGE = (
    "storage/local/test_crash_points.py", "storage/local/test_journal.py",
    "storage/runtime/test_disk.py", "storage/runtime/test_uncached_write.py",
    "storage/local/test_rot.py", "storage/log/test_log_crash.py",
    "storage/cursors/test_cursor_log.py", "storage/local/test_local_model.py",
    "storage/log/test_rewriting.py",
)  # fmt: skip
"""Tests that detect most mutants of code that writes files."""

TRANSACTIONS = (
    "broker/session/test_transaction_publishing.py", "broker/session/test_transaction_acks.py",
    "broker/topic/test_transactions_model.py",
)  # fmt: skip
DELIVERY = ("broker/dispatch/test_dispatch_model.py", "broker/dispatch/test_single_active.py")

RECEIVING = (
    "client/test_client_epochs.py", "client/test_consumer_again.py",
    "client/test_client_lost_acks.py", "client/test_consumer_more.py",
    "client/test_client_broker.py", "client/test_client_unreadable.py",
    "client/test_client_transaction_acks.py", "client/test_reader_more.py",
)  # fmt: skip
SENDING = (
    "client/test_producer.py", "client/test_client_broker.py", "client/test_client_transactions.py",
    "client/test_client_reconnect.py", "client/test_client_recreated.py",
    "client/base/test_memory_limit.py",
)  # fmt: skip

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "proto/admin": ("broker/server/admin/test_routes.py",),
    "storage/local": STORAGE,
    "storage/runtime": STORAGE,
    "storage/compacted": ("broker/compaction",),
    "storage/cursors": TRANSACTIONS,
    "storage/delays": ("broker/dispatch/test_topic_delays.py",),
    "storage/errors.py": ("broker/ipc/test_refusals.py",),
    "storage/multi_store": ("broker/expiry/test_orphans.py", "crash/test_incomplete_data.py"),
    "storage/log": (*TRANSACTIONS, *DELIVERY, "broker/subscriptions/test_acknowledging.py"),
    "broker/authorization": (
        "broker/names/test_authorizer.py", "broker/session/test_authorizing.py",
    ),
    "broker/base": (
        "broker/session/test_transient_errors.py", "broker/metrics/test_figures.py",
        "broker/names/test_guarded_directory.py",
        "broker/server/processes/test_ended_processes.py",
    ),
    "broker/commands": (
        "broker/test_doctor.py", "broker/server/data_directory/snapshots/test_snapshots.py",
    ),
    "broker/config": (
        "broker/policies/test_offload_values.py", "broker/server/processes/test_exposure.py",
        "broker/server/clients/test_secrets.py",
    ),
    "broker/dispatch": (
        *DELIVERY, "storage/delays", "broker/throttling",
        "broker/topic/test_measuring.py", "broker/metrics/test_figures.py", *TRANSACTIONS,
    ),
    "broker/expiry": ("broker/producers/test_deduplication.py", *TRANSACTIONS),
    "broker/commands/repair.py": (
        "broker/server/data_directory/test_lost_objects.py",
        "crash/test_incomplete_data.py", "crash/test_rebuilt_metadata.py",
    ),
    "broker/server/data_directory/rebuilding.py": (
        "broker/server/data_directory/test_lost_objects.py",
        "broker/server/data_directory/test_object_names.py", "crash/test_rebuilt_metadata.py",
    ),
    "storage/tiered": (
        "broker/expiry/test_shared_objects.py", "broker/expiry/test_stray_objects.py",
        "storage/log/test_offloading.py",
    ),
    "broker/names/rebuilt_names.py": ("crash/test_rebuilt_metadata.py",),
    "broker/names": (
        "broker/placement/test_following.py",
        "broker/policies/test_policies.py", "broker/session/test_authorizing.py",
        "broker/server/admin/test_owned_bundles.py", "broker/server/admin/test_permissions.py",
        "broker/server/processes/test_dynamic_settings.py", "clients/test_reload.py",
    ),
    "broker/placement": (
        "broker/names/workers/test_distributed.py", "broker/names/test_bundle_changes.py",
        "broker/names/workers/test_controller_replaced.py",
    ),
    "broker/policies": (
        "broker/names/workers/test_controller_replaced.py",
        "broker/names/workers/test_distributed.py", "broker/names/test_bundle_changes.py",
        "broker/names/test_policy_enforcement.py", "broker/server/admin/test_permissions.py",
    ),
    "broker/producers": (
        *TRANSACTIONS, "broker/metrics/test_writes.py", "broker/session/test_moved_topics.py",
        "broker/session/test_lost_connections.py",
    ),
    "broker/schemas": ("broker/metrics/test_metrics.py",),
    "broker/server": ("broker/authorization/test_matrix.py",),
    "broker/server/processes/http_server.py": ("broker/server/admin/test_leader.py",),
    "broker/session": (
        "broker/limits", "broker/topic/test_transactions_model.py",
        "client/test_client_broker_metadata.py",
        "broker/server/clients/test_departed_clients.py", "broker/official/test_official_quotas.py",
    ),
    "broker/subscriptions": (
        *DELIVERY, *TRANSACTIONS, "broker/topic/test_measuring.py",
        "broker/dispatch/test_topic_delays.py",
        "broker/expiry/test_message_expiry.py", "broker/expiry/test_trimming.py",
        "broker/producers/test_broker_metadata.py", "broker/session/test_lost_connections.py",
    ),
    "broker/topic": (
        "broker/metrics/test_figures.py", "broker/session/test_moved_topics.py",
        "broker/producers/test_deduplication.py",
        "broker/server/processes/test_dynamic_settings.py",
        "broker/damage/test_skip_damaged.py",
        "broker/names/workers/test_controller_replaced.py",
        "broker/names/workers/test_distributed_histories.py",
    ),
    "client/consuming": RECEIVING,
    "client/consuming/receiver.py": ("broker/server/admin/test_damage.py",),
    "client/producing": SENDING,
    "client/transactions": (
        "client/test_client_transactions.py", "client/test_client_transaction_acks.py",
        "client/test_client_transaction_ids.py", "client/test_client_transaction_hand_over.py",
    ),
    "broker/verify.py": ("storage/verify", "broker/test_verify_command.py"),
    "client/cli/tools": ("client/cli/test_cli_traces.py", "client/cli/test_cli.py"),
}  # fmt: skip
"""The tests outside a room's mirror that cover it, by room of the sources."""


def judges(root: Path, file: str) -> list[Path]:
    """Return the files of tests that must notice a mutation of `file`, most likely first."""
    path = PurePath(file)
    package, inside = path.parts[0], path.parts[2:]
    mirror = root.joinpath(MIRRORS[package], *inside[:-1])
    while not mirror.is_dir():
        mirror = mirror.parent
    words = _words(PurePath(*inside))
    same = mirror / f"test_{path.stem}.py"
    named = "/".join((package, *inside))
    elsewhere = [
        test
        for room, places in ELSEWHERE.items()
        if named == room or named.startswith(f"{room}/")
        for place in places
        for test in _files(root / "tests" / place)
    ]
    beside = sorted(_files(mirror), key=lambda test: -len(words & _words(test.relative_to(mirror))))
    whole = _files(root / MIRRORS[package]) if package in ("storage", "client") else []
    near = [test for test in beside if words & _words(test.relative_to(mirror))]
    ordered = [*([same] if same.is_file() else ()), *near, *elsewhere, *beside, *whole]
    return list(dict.fromkeys(ordered))


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("test_*.py"))


def _words(path: PurePath) -> set[str]:
    """Return the words of a path, without the `s` of a plural."""
    return {word.removesuffix("s") for word in re.split(r"[/_.]", str(path))} - {"test", "py"}
