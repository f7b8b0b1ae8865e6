"""The marks of all tests, in one place: the requirements of each test, and the command to run it.

`make test-fast` runs the core, `make test` the core and the tests marked `smoke`, `make test-all`
all tests.
"""

import datetime
import zlib
from collections.abc import Collection, Container
from functools import cache
from typing import Final

MEANINGS: Final = {
    "core": "starts no process (conftest.py enforces it) and is quick: has no mark but `smoke`",
    "broker": "starts a broker in a process of its own",
    "process": "starts another process, such as a command or an interpreter",
    "workers": "starts a broker of several workers",
    "jvm": "needs Java 17 or later",
    "foreign": "builds and runs a program in another language, with Maven or Go",
    "crash": "kills brokers and compares what is left",
    "bench": "tests the benchmark",
    "slow": "takes seconds of processor time even with few random cases",
    "smoke": "part of `make test`",
}

STARTING_BROKERS: Final = frozenset({"broker", "make_broker"})
"""Fixtures that start a broker: a test that uses one has the mark `broker`."""

OFFICIAL = "broker/official/test_official_"
TRACES: Final = "conformance/test_traces.py::test_magnetar_answers_as_recorded"

BY_PATH: Final = {
    "bench/": "bench broker",
    "bench/test_offloaded_bench.py": "foreign",
    "bench/test_remote_bench.py": "foreign",
    "broker/authorization/test_matrix.py": "broker smoke",
    "broker/authorization/test_revocations.py": "broker",
    "broker/limits/test_limits.py": "broker",
    "broker/metrics/test_joining.py::test_a_part_of_many_namespaces": "slow",
    "broker/metrics/test_metrics.py::test_no_part_of_the_page_has_more": "slow",
    f"{OFFICIAL}access.py": "smoke",
    f"{OFFICIAL}deduplication.py": "smoke",
    f"{OFFICIAL}delays.py": "smoke",
    f"{OFFICIAL}key_shared.py": "smoke",
    f"{OFFICIAL}limits.py": "broker",
    f"{OFFICIAL}listeners.py": "broker",
    f"{OFFICIAL}publish.py": "smoke",
    f"{OFFICIAL}restart.py": "smoke",
    f"{OFFICIAL}schemas.py": "smoke",
    f"{OFFICIAL}subscriptions.py": "smoke",
    "broker/server/admin/test_admin_fuzz.py": "broker slow",
    "broker/server/clients/test_all_providers.py": "broker",
    "broker/server/runtime/test_allocator.py": "process",
    "broker/server/clients/test_authentication.py": "broker",
    "broker/server/admin/test_damage.py::test_what_one_worker": "workers",
    "broker/server/clients/test_half_open.py": "broker",
    "broker/server/clients/test_socket_handoff.py::test_a_thousand_clients_at_once": "slow",
    "broker/server/clients/test_hostile_clients.py": "broker slow",
    "broker/server/processes/test_hung_worker.py": "workers",
    "broker/server/processes/test_link_sockets.py::test_a_request_to_a_killed_process": "process",
    "broker/server/processes/test_link_sockets.py::test_a_process_notices": "process",
    "broker/server/runtime/test_logs.py::test_names_that_clients_choose": "broker",
    "broker/server/clients/test_passing.py": "process",
    "broker/server/clients/test_relayed_clients.py": "workers smoke",
    "broker/server/admin/test_resource_groups.py": "broker",
    "broker/server/metadata_stores/engines/": "process slow",
    "broker/server/metadata_stores/engines/test_etcd.py": "foreign",
    "broker/server/metadata_stores/engines/test_etcd_cluster.py": "foreign",
    "broker/server/metadata_stores/engines/test_outages.py": "foreign",
    "broker/server/remote_data/test_remote_broker.py": "broker foreign",
    "broker/server/supervision/test_rolling_restart.py": "broker process workers",
    "broker/server/clients/test_secrets.py": "broker",
    "broker/server/processes/test_multi_process.py": "process workers",
    "broker/server/data_directory/snapshots/test_shared_objects.py": "broker",
    "broker/server/data_directory/snapshots/test_snapshots.py": "broker smoke",
    "broker/server/processes/test_start.py::test_what_only_requests_need": "process",
    "broker/server/processes/test_start.py::test_the_first_requests": "process",
    "broker/server/processes/test_start.py::test_a_request_of_the_admin_api": "process",
    "broker/server/processes/test_start.py::test_libraries_of_authentication": "process",
    "broker/server/supervision/test_supervisor.py": "process workers",
    "broker/server/tls/test_tls.py": "broker",
    "broker/test_doctor.py": "broker",
    "broker/test_verify_command.py": "process smoke",
    "broker/tiering/test_repaired_objects.py": "broker",
    "broker/tiering/test_store_away.py": "broker",
    "broker/tiering/test_tiered_many.py": "broker foreign",
    "broker/tiering/test_tiered_s3.py": "broker",
    "broker/upgrade/": "broker",
    "client/cli/admin/test_admin_usage.py::test_completion": "process",
    "client/cli/admin/test_admin_usage.py::test_help_and_wrong_words": "process",
    "client/cli/admin/test_admin_usage.py::test_what_a_shell_gets": "process",
    "client/cli/setup/test_init.py": "broker",
    "client/cli/setup/test_tokens.py": "process",
    "client/cli/test_cli.py": "process",
    "client/cli/test_cli_login.py": "broker",
    "client/cli/test_cli_traces.py": "broker",
    "client/cli/tools/test_perf.py": "process",
    "client/schema/test_avro.py": "process",
    "client/schema/test_versions.py": "process",
    "client/test_api.py": "process",
    "client/test_client_authentication.py": "broker",
    "client/test_client_broker.py": "smoke",
    "client/test_client_official.py": "smoke",
    "client/test_client_reconnect.py": "smoke",
    "client/test_client_transactions.py": "smoke",
    "client/test_consumer_more.py": "smoke",
    "client/test_sync.py::test_a_broker": "broker",
    "client/test_sync.py::test_the_fixtures": "broker",
    "clients/": "broker",
    "clients/test_go.py": "foreign",
    "clients/test_java.py": "foreign jvm",
    "clients/test_pulsar_admin.py": "foreign jvm",
    TRACES: "broker",
    "crash/test_admin_torture.py": "crash",
    "crash/test_bank.py": "crash",
    "crash/test_bank.py::test_no_money_appears_or_goes[1]": "smoke",
    "crash/test_counts.py": "crash",
    "crash/test_kill9.py": "crash",
    "crash/test_kill9.py::test_kill_9_under_load": "smoke",
    "crash/test_kill9_retention.py": "crash",
    "crash/test_names_kill9.py": "crash",
    "crash/test_open_index.py": "crash",
    "crash/test_schema_kill9.py": "broker crash",
    "crash/test_small_disk.py": "broker crash workers",
    "crash/test_takeover_torture.py": "crash foreign",
    "crash/test_tiered_torture.py": "crash foreign",
    "crash/test_trouble.py": "crash",
    "fuzz/test_fuzz_corpus.py": "slow",
    "mutants/": "slow",
    "packaging/installed_wheel.py": "process",
    "packaging/test_build_hook.py": "process",
    "packaging/test_supply_chain.py": "process",
    "spark/sink/test_sink_committing.py": "broker",
    "spark/sink/test_sink_partition_sender.py": "broker",
    "spark/sink/test_sink_task.py": "broker",
    "spark/source/test_spark_acknowledging.py": "broker",
    "spark/test_spark_archives.py": "broker jvm slow",
    "spark/test_spark_cluster.py": "broker jvm slow",
    "spark/source/test_spark_compacted.py": "broker",
    "spark/source/test_spark_contents.py": "broker",
    "spark/test_spark_end_to_end.py": "broker jvm smoke",
    "spark/test_spark_exactly_once.py": "broker jvm crash slow",
    "spark/test_spark_extras.py": "process",
    "spark/source/test_spark_losses.py": "broker",
    "spark/test_spark_pages.py": "broker jvm",
    "spark/source/test_spark_ranges.py": "broker",
    "spark/source/test_spark_reader.py": "broker",
    "spark/test_spark_source_kills.py": "broker jvm crash slow",
    "spark/test_spark_workers_python.py": "process jvm",
    "storage/local/test_rot_everywhere.py": "slow",
    "storage/objects/test_versitygw.py": "foreign process",
    "storage/session_store/test_versitygw.py": "foreign process",
    "storage/wal/test_versitygw.py": "foreign process",
    "storage/runtime/test_disk.py::test_one_process_at_a_time": "process",
    "storage/verify/test_verify.py::test_every_byte": "slow",
}
"""The marks of tests, by their folder, file or test, relative to tests/.

A test has the marks of every entry with which its id begins.
"""

LONGEST_FIRST: Final = (
    "jvm", "foreign", "crash", "bench", "slow", "workers", "broker", "process", "core",
)  # fmt: skip
"""The order in which tests run: a long test that starts last leaves other processors idle."""

TURNS: Final = 3
"""The number of days in which `make test` plays every recorded dialogue once."""


def marks_of(test: str, fixtures: Collection[str], today: datetime.date) -> set[str]:
    """Return the names of the marks of a test, given by its id relative to tests/."""
    names = {mark for path in BY_PATH if test.startswith(path) for mark in BY_PATH[path].split()}
    if not STARTING_BROKERS.isdisjoint(fixtures):
        names.add("broker")
    if test.startswith(TRACES) and zlib.crc32(test.encode()) % TURNS == today.toordinal() % TURNS:
        names.add("smoke")
    return names if names - {"smoke"} else names | {"core"}


def best_of(names: Container[str]) -> str:
    """Return the mark among `names` that says most about a test."""
    return next(mark for mark in LONGEST_FIRST if mark in names)


@cache
def is_taken_whole(file: str) -> bool:
    """Tell whether one test process runs all tests of a file, given by its path in tests/.

    Such a file builds a program or starts a JVM: once is enough, and two builds would collide.
    """
    return (
        any(
            file == path and not {"jvm", "foreign"}.isdisjoint(marks.split())
            for path, marks in BY_PATH.items()
        )
        or file == "bench/test_spark_bench.py"
    )
