"""The metrics: their names, helps, and figures.

`pulsar_*` names are those of Pulsar 4.x; `magnetar_*` names are Magnetar's own.
"""

from operator import attrgetter, itemgetter

from magnetar_broker.metrics.text import Row

LOAD_ROWS: tuple[Row, ...] = (
    Row("subscriptions_count", "Subscriptions", attrgetter("subscriptions")),
    Row("producers_count", "Connected producers", attrgetter("producers")),
    Row("consumers_count", "Connected consumers", attrgetter("consumers")),
    Row("rate_in", "Messages published per second", attrgetter("rate_in")),
    Row("rate_out", "Messages delivered per second", attrgetter("rate_out")),
    Row("throughput_in", "Bytes published per second", attrgetter("throughput_in")),
    Row("throughput_out", "Bytes delivered per second", attrgetter("throughput_out")),
    Row("storage_size", "Bytes of stored entries", attrgetter("storage_bytes")),
    Row("storage_logical_size", "Bytes of stored entries, without copies",
        attrgetter("storage_bytes")),
    Row("storage_read_rate", "Entries read per second to deliver them", attrgetter("rate_read")),
    Row("storage_read_cache_misses_rate", "Entries read per second from disk",
        attrgetter("rate_read_from_disk")),
)  # fmt: skip
"""Metrics of topics or namespaces, and with the prefix pulsar_broker_ of the whole broker."""

BACKLOG_ROW = Row(
    "msg_backlog", "Unacknowledged messages of all subscriptions", attrgetter("backlog")
)
TOPICS_ROW = Row("topics_count", "Loaded topics", attrgetter("topics"))
STORAGE_ROWS: tuple[Row, ...] = (
    Row("storage_offloaded_size", "Bytes of stored entries that are in a store of objects",
        attrgetter("offloaded_bytes")),
    Row("storage_backlog_size", "Unacknowledged bytes of the slowest subscription",
        attrgetter("backlog_bytes")),
)  # fmt: skip
AGE_NAME, AGE_TEXT = (
    "storage_backlog_age_seconds",
    "Age of the oldest unacknowledged message in seconds",
)

MEAN_SIZE_ROW = Row(
    "average_msg_size",
    "Mean bytes of the messages of the last window",
    lambda load: load.throughput_in / load.rate_in if load.rate_in else 0.0,
)

TOTAL_ROWS: tuple[Row, ...] = (
    Row("publish_rate_limit_times", "How often reading from a client paused for the publish rate",
        attrgetter("publish_waits")),
    Row("in_messages_total", "Messages published since the topic was loaded",
        attrgetter("messages_in")),
    Row("in_bytes_total", "Bytes published since the topic was loaded", attrgetter("bytes_in")),
)  # fmt: skip
OUT_ROWS: tuple[Row, ...] = (
    Row("out_messages_total", "Messages delivered since the topic was loaded",
        attrgetter("messages_out")),
    Row("out_bytes_total", "Bytes delivered since the topic was loaded", attrgetter("bytes_out")),
)  # fmt: skip
"""Metrics of subscriptions, and of namespaces if only namespaces are shown."""
NAMESPACE_ROWS: tuple[Row, ...] = (
    Row("subscription_delayed", "Delayed messages whose delivery time has not come",
        attrgetter("delayed")),
    Row("subscription_unacked_messages", "Messages delivered and not acknowledged",
        attrgetter("unacked")),
    Row("subscription_in_replay", "Entries that wait for redelivery", attrgetter("in_replay")),
    Row("subscription_msg_rate_redeliver", "Messages redelivered per second",
        attrgetter("rate_redelivered")),
    Row("subscription_msg_ack_rate", "Messages acknowledged per second",
        attrgetter("rate_acked")),
    Row("subscription_msg_rate_expired", "Messages expired per second",
        attrgetter("rate_expired")),
)  # fmt: skip
"""Sums over subscriptions, for namespaces if only namespaces are shown."""

SUBSCRIPTION_ROWS: tuple[Row, ...] = (
    Row("back_log", "Unacknowledged messages",
        lambda one: one.backlog and one.backlog.messages),
    Row("back_log_no_delayed", "Unacknowledged messages without delayed ones",
        lambda one: one.backlog and one.backlog.without_delayed),
    Row("delayed", "Delayed messages whose delivery time has not come",
        lambda one: one.backlog and one.backlog.delayed),
    Row("storage_backlog_size", "Unacknowledged bytes",
        lambda one: one.backlog and one.backlog.size),
    Row("unacked_messages", "Messages delivered and not acknowledged", attrgetter("unacked")),
    Row("blocked_on_unacked_messages", "1 while the limit of unacknowledged messages is reached",
        lambda one: None if one.blocked is None else int(one.blocked)),
    Row("in_replay", "Entries that wait for redelivery", attrgetter("in_replay")),
    Row("msg_rate_out", "Messages delivered per second", attrgetter("rates.messages")),
    Row("msg_throughput_out", "Bytes delivered per second", attrgetter("rates.bytes")),
    Row("msg_rate_redeliver", "Messages redelivered per second",
        attrgetter("rates.redelivered")),
    Row("msg_ack_rate", "Messages acknowledged per second", attrgetter("rates.acked")),
    Row("consumers_count", "Connected consumers", attrgetter("consumers")),
    Row("msg_rate_expired", "Messages expired per second", attrgetter("rates.expired")),
    Row("total_msg_expired", "Messages expired since the topic was loaded",
        attrgetter("expired")),
    Row("msg_drop_rate", "Messages of a non-persistent topic dropped per second",
        lambda one: None if one.dropped is None else one.rates.dropped),
    Row("last_expire_timestamp", "When messages last expired, in milliseconds since 1970",
        lambda one: one.times.expired or None),
    Row("last_acked_timestamp", "When messages were last acknowledged, likewise",
        lambda one: one.times.acked or None),
    Row("last_consumed_flow_timestamp", "When a consumer last asked for messages, likewise",
        lambda one: one.times.flow or None),
    Row("last_consumed_timestamp", "When messages were last sent, likewise",
        lambda one: one.times.consumed or None),
    Row("last_mark_delete_advanced_timestamp",
        "When the mark-delete position last advanced, likewise",
        lambda one: one.times.advanced or None),
)  # fmt: skip
CONSUMER_ROWS: tuple[Row, ...] = (
    Row("msg_rate_out", "Messages delivered per second", attrgetter("rates.messages")),
    Row("msg_throughput_out", "Bytes delivered per second", attrgetter("rates.bytes")),
    Row("msg_rate_redeliver", "Messages redelivered per second",
        attrgetter("rates.redelivered")),
    Row("msg_ack_rate", "Messages acknowledged per second", attrgetter("rates.acked")),
    Row("unacked_messages", "Messages delivered and not acknowledged", attrgetter("unacked")),
    Row("blocked_on_unacked_messages", "1 while the limit of unacknowledged messages is reached",
        lambda one: int(one.blocked)),
    Row("available_permits", "Messages that may be sent to the consumer", attrgetter("permits")),
)  # fmt: skip
PRODUCER_ROWS: tuple[Row, ...] = (
    Row("msg_rate_in", "Messages published per second", attrgetter("rates.messages")),
    Row("msg_throughput_in", "Bytes published per second", attrgetter("rates.bytes")),
    Row("msg_average_Size", "Mean size of the messages of the last window",
        lambda one: one.rates.bytes / one.rates.messages if one.rates.messages else 0.0),
)  # fmt: skip
THROTTLED_ROWS: tuple[Row, ...] = (
    Row("dispatch_throttled_msg_events",
        "How often delivery began to wait for a rate of messages", itemgetter(0)),
    Row("dispatch_throttled_bytes_events",
        "How often delivery began to wait for a rate of bytes", itemgetter(1)),
)  # fmt: skip
"""Metrics of subscriptions, by the scope of the rate."""
DROPPED_ROW = Row(
    "subscription_msg_dropped_total",
    "Messages dropped: no consumer had permits",
    attrgetter("dropped"),
)

COMPACTION_ROWS: tuple[Row, ...] = (
    Row("compaction_succeed_count", "Successful compactions since the topic was loaded",
        attrgetter("succeeded")),
    Row("compaction_failed_count", "Failed compactions since the topic was loaded",
        attrgetter("failed")),
    Row("compaction_duration_time_in_mills", "Duration of the last compaction in milliseconds",
        attrgetter("duration_ms")),
    Row("compaction_compacted_entries_count", "Entries that the last compaction kept",
        attrgetter("entries")),
    Row("compaction_compacted_entries_size", "Bytes that the last compaction kept",
        attrgetter("size")),
)  # fmt: skip
"""Metrics of topics that were compacted since they were loaded."""

CACHE_ROWS: tuple[Row, ...] = (
    Row("cache_hits_rate", "Entries per second that deliveries took from the cache",
        lambda load: load.rate_read - load.rate_read_from_disk),
    Row("cache_misses_rate", "Entries per second that deliveries had to read from disk",
        attrgetter("rate_read_from_disk")),
)  # fmt: skip
"""Metrics of the cache of recent entries, from the load of the broker."""

LOG_ROWS: tuple[Row, ...] = (
    Row("AddEntryMessagesRate", "Messages published per second; by namespace",
        attrgetter("rate_in")),
    Row("AddEntryBytesRate", "Bytes published per second; by namespace",
        attrgetter("throughput_in")),
    Row("ReadEntriesRate", "Entries read per second to deliver them; by namespace",
        attrgetter("rate_read")),
    Row("ReadEntriesOpsCacheMissesRate", "Entries read per second from disk; by namespace",
        attrgetter("rate_read_from_disk")),
    Row("NumberOfMessagesInBacklog", "Unacknowledged messages of all subscriptions; by namespace",
        attrgetter("backlog")),
    Row("StoredMessagesSize", "Bytes of stored entries; by namespace",
        attrgetter("storage_bytes")),
)  # fmt: skip
"""Metrics of namespaces, which are always shown."""

EVICTIONS_ROW = Row(
    "storage_backlog_quota_exceeded_evictions_total",
    "How often a subscription's backlog was evicted for a quota, since the topic was loaded",
    lambda number: number,
)
QUOTA_ROWS: tuple[Row, ...] = (
    Row("storage_backlog_quota_limit", "The largest backlog in bytes", attrgetter("size")),
    Row("storage_backlog_quota_limit_time", "The largest age of a backlog in seconds",
        attrgetter("age")),
)  # fmt: skip
"""Metrics of topics that have a backlog quota."""

STALL_ROWS: tuple[Row, ...] = (
    Row("stalled", "Subscriptions that are stalled: they could deliver and do not; by reason",
        attrgetter("now")),
    Row("stalled_total", "How often subscriptions became stalled; by reason",
        attrgetter("total")),
)  # fmt: skip

BLOCKER_ROW = Row(
    "magnetar_subscription_blocker",
    "Why a subscription delivers nothing at the moment, in the label; always 1",
    lambda one: 1 if one.blocker else None,
)

CONNECTION_ROWS: tuple[Row, ...] = (
    Row("pulsar_active_connections", "Open connections", attrgetter("connections")),
    Row("pulsar_connection_created_total_count", "Connections since the start",
        attrgetter("connections_total")),
    Row("pulsar_connection_closed_total_count", "Connections that have ended since the start",
        attrgetter("connections_closed")),
    Row("pulsar_connection_create_success_count", "Clients accepted since the start",
        attrgetter("connections_accepted")),
    Row("pulsar_connection_create_fail_count", "Clients refused since the start",
        attrgetter("connections_refused")),
)  # fmt: skip

LOOKUP_ROWS: tuple[Row, ...] = (
    Row("pulsar_broker_lookup_answers_total", "Lookups answered with the process asked",
        attrgetter("lookups.answered")),
    Row("pulsar_broker_lookup_redirects_total", "Lookups answered with another process",
        attrgetter("lookups.redirected")),
    Row("pulsar_broker_lookup_failures_total", "Lookups answered with an error",
        attrgetter("lookups.failed")),
    Row("pulsar_broker_lookup_pending_requests", "Lookups that are not answered yet",
        attrgetter("lookups.done.under_way")),
    Row("pulsar_broker_topic_load_pending_requests", "Topics that are being loaded",
        attrgetter("loads.under_way")),
)  # fmt: skip

USAGE_ROWS: tuple[Row, ...] = (
    Row("pulsar_lb_cpu_usage",
        "Percent of the machine's processors that were used since the last scrape",
        attrgetter("cpu")),
    Row("pulsar_lb_memory_usage", "Percent of the machine's memory that is resident",
        attrgetter("memory")),
)  # fmt: skip

SCHEMA_FAILED_ROW = Row(
    "_ops_failed_total", "How often that failed; by namespace", lambda number: number
)
"""The metric whose name follows the name of a kind of work on schemas."""
SCHEMA_ROWS: tuple[Row, ...] = (
    Row("compatible_total", "Schemas that were compatible with a topic's versions; by namespace",
        attrgetter("compatible")),
    Row("incompatible_total", "Schemas that were not; by namespace",
        attrgetter("incompatible")),
)  # fmt: skip

BROKER_ROWS: tuple[Row, ...] = (
    Row("pulsar_ml_count", "Loaded topics whose messages are stored", attrgetter("logs")),
    Row("pulsar_ml_cache_entries", "Entries in the cache of recent entries",
        attrgetter("cache_entries")),
    Row("pulsar_ml_cache_evictions",
        "Entries dropped from the cache of recent entries since the start",
        attrgetter("cache_evicted")),
    Row("magnetar_unauthenticated_connections", "Connections that are not accepted yet",
        attrgetter("connections_half_open")),
    Row("pulsar_ml_cache_used_size", "Bytes in the cache of recent entries",
        attrgetter("cache_used_bytes")),
    Row("magnetar_read_bytes",
        "Bytes of entries read from disk and not sent yet, reads under way included",
        attrgetter("read_bytes")),
    Row("magnetar_read_limit_bytes", "The limit of magnetar_read_bytes",
        attrgetter("read_limit_bytes")),
    Row("magnetar_reads_waiting", "Subscriptions whose read waits for that limit",
        attrgetter("reads_waiting")),
    Row("magnetar_read_dropped_bytes_total",
        "Bytes read and dropped for that limit before all were sent",
        attrgetter("read_dropped_bytes")),
    Row("magnetar_unread_bytes",
        "Stored bytes of closed ledgers with messages that no durable subscription acknowledged",
        attrgetter("unread_bytes")),
    Row("magnetar_unread_limit_bytes", "The limit of magnetar_unread_bytes; 0 means no limit",
        attrgetter("unread_limit_bytes")),
    Row("magnetar_unread_deleted_bytes_total",
        "Such bytes that were deleted for their age or for a limit",
        attrgetter("unread_deleted_bytes")),
    Row("magnetar_damaged_entries",
        "Stored entries found since the start that cannot be read, and were not set aside",
        attrgetter("damaged_entries")),
    Row("magnetar_damaged_entries_set_aside_total",
        "Damaged entries that were set aside since the start",
        attrgetter("damaged_set_aside")),
    Row("magnetar_scrubbed_bytes_total",
        "Bytes of closed ledgers that were read since the start to find damage",
        attrgetter("scrubbed_bytes")),
    Row("magnetar_offloaded_bytes_total", "Bytes of ledgers that were offloaded since the start",
        attrgetter("copies.copied_bytes")),
    Row("brk_ledgeroffloader_offload_error",
        "Ledgers that could not be offloaded since the start; each attempt counts",
        attrgetter("copies.copy_errors")),
    Row("brk_ledgeroffloader_read_bytes",
        "Bytes of offloaded ledgers that were read since the start",
        attrgetter("copies.read_bytes")),
    Row("brk_ledgeroffloader_read_offload_error",
        "Reads of offloaded ledgers that failed since the start",
        attrgetter("copies.read_errors")),
    Row("brk_ledgeroffloader_delete_offload_ops",
        "Objects of offloaded ledgers that were deleted since the start",
        attrgetter("copies.deleted")),
    Row("magnetar_publish_pending_bytes", "Published bytes that are not durable yet",
        attrgetter("publish_pending_bytes")),
)  # fmt: skip
STRAY_OBJECTS_ROWS: tuple[Row, ...] = (
    Row("magnetar_offload_orphans_deleted_total",
        "Objects without a ledger that were deleted since the start",
        attrgetter("deleted")),
    Row("magnetar_offload_left_objects",
        "Objects of deleted topics that could not be deleted yet, ten minutes ago at most",
        attrgetter("unreachable.number")),
)  # fmt: skip
LIMIT_ROW = Row(
    "magnetar_limits_reached_total",
    "How often clients have reached a limit that protects the broker; by limit",
    lambda number: number,
)
ACCEPTED_ROW = Row(
    "pulsar_authentication_success_total",
    "Credentials that proved a role; by provider",
    lambda number: number,
)
REFUSED_ROW = Row(
    "pulsar_authentication_failures_total",
    "Credentials that proved none; by provider and reason",
    lambda number: number,
)
TLS_ROWS: tuple[Row, ...] = (
    Row("magnetar_tls_handshake_failures_total",
        "TLS connections of clients that could not be set up",
        attrgetter("handshake_failures")),
    Row("magnetar_tls_certificate_expiry_timestamp_seconds",
        "When the certificate expires that new TLS connections get, in seconds since 1970",
        attrgetter("expires_at")),
)  # fmt: skip
SPACE_ROWS: tuple[Row, ...] = (
    Row("magnetar_disk_free_bytes", "Free bytes of the disk of the data directory",
        attrgetter("free")),
    Row("magnetar_disk_size_bytes", "Bytes of this disk", attrgetter("size")),
    Row("magnetar_disk_free_limit_bytes",
        "With fewer free bytes publishing and the creation of topics are refused",
        attrgetter("limit")),
    Row("magnetar_disk_reserve_bytes", "Bytes set aside for what is written on a full disk",
        attrgetter("reserved")),
    Row("magnetar_disk_low", "1 while publishing is refused for lack of room, else 0",
        lambda space: int(space.is_low)),
)  # fmt: skip
SHOWN_ROW = Row(
    "magnetar_topics_shown",
    "Topics in this page, one by one or, with the label `topic` other, only in sums",
    lambda number: number,
)

VERSION_ROW = Row("pulsar_version_info", "The broker's version", lambda _: 1)
WORKERS_ROW = Row(
    "magnetar_workers",
    "Processes that serve topics: `up` if their metrics are in this page, else `down`",
    lambda number: number,
)
JOURNAL_BYTES_ROW = Row(
    "magnetar_journal_bytes_total", "Bytes of records made durable", attrgetter("bytes_total")
)
