"""The tables and the function of metadata in PostgreSQL.

All writes are made by one function, which locks the row of `state` first.  So they take place one
after the other in the whole database, and numbers of versions grow in the order of the commits: a
sequence would not do, since a transaction that commits late may have an early number.  The function
is one statement, so a client that stops never holds the lock.
"""

from typing import Final

SCHEMA_VERSION: Final = 1
KEPT_CHANGES: Final = 10_000
"""The number of the latest changes that are kept for watches."""
KEPT_VALUE_BYTES: Final = 8192
"""The largest value that is kept with its change; larger ones are read from their keys."""

PUT, DELETE, END_LEASE = 1, 2, 3
"""The kinds of writes."""
NOT_MADE, FENCED, LEASE_ENDED = -1, -2, -3
"""The outcomes of writes that were refused; those of others are versions."""

TABLES: Final = (
    """CREATE TABLE entries (
        key bytea PRIMARY KEY, value bytea NOT NULL, version bigint NOT NULL, lease bigint
    )""",
    "CREATE INDEX entries_lease ON entries (lease) WHERE lease IS NOT NULL",
    """CREATE TABLE changes (
        revision bigint PRIMARY KEY, key bytea NOT NULL, value bytea, is_deletion boolean NOT NULL
    )""",
    """CREATE TABLE leases (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ttl_ms bigint NOT NULL,
        renewals bigint NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE state (
        schema_version int NOT NULL, last bigint NOT NULL, trimmed bigint NOT NULL
    )""",
)
# Not `to_regclass`, which may not see what another transaction has committed during this one.
HAS_SCHEMA: Final = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"
HAS_TABLES: Final = """SELECT EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'state'
    )"""
STATE: Final = "INSERT INTO state VALUES ($1, 0, 0)"

FUNCTION: Final = """
CREATE FUNCTION write_all(
    kinds int[], keys bytea[], new_values bytea[], expects bigint[], lease_ids bigint[],
    guard_keys bytea[], guard_versions bigint[], kept_changes bigint, kept_bytes int
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before bigint;
    now_at bigint;
    outcome bigint;
    outcomes bigint[] := '{}';
    ended bytea;
BEGIN
    -- Each later statement sees all that was committed before this lock was obtained.
    SELECT last INTO STRICT before FROM state FOR UPDATE;
    now_at := before;
    FOR i IN 1 .. cardinality(kinds) LOOP
        outcome := -1;
        IF guard_keys[i] IS NOT NULL AND NOT EXISTS (
            SELECT FROM entries WHERE key = guard_keys[i] AND version = guard_versions[i]
        ) THEN
            outcome := -2;
        ELSIF kinds[i] = 1 AND lease_ids[i] IS NOT NULL AND NOT EXISTS (
            SELECT FROM leases WHERE id = lease_ids[i]
        ) THEN
            outcome := -3;
        ELSIF kinds[i] = 1 THEN
            IF expects[i] IS NULL THEN
                INSERT INTO entries VALUES (keys[i], new_values[i], now_at + 1, lease_ids[i])
                ON CONFLICT (key) DO UPDATE SET
                    value = excluded.value, version = excluded.version, lease = excluded.lease;
            ELSIF expects[i] = 0 THEN
                INSERT INTO entries VALUES (keys[i], new_values[i], now_at + 1, lease_ids[i])
                ON CONFLICT (key) DO NOTHING;
            ELSE
                UPDATE entries SET
                    value = new_values[i], version = now_at + 1, lease = lease_ids[i]
                WHERE key = keys[i] AND version = expects[i];
            END IF;
            IF FOUND THEN
                now_at := now_at + 1;
                outcome := now_at;
                INSERT INTO changes VALUES (now_at, keys[i],
                    CASE WHEN length(new_values[i]) <= kept_bytes THEN new_values[i] END, false);
            END IF;
        ELSIF kinds[i] = 2 THEN
            DELETE FROM entries
            WHERE key = keys[i] AND (expects[i] IS NULL OR version = expects[i]);
            IF FOUND THEN
                now_at := now_at + 1;
                outcome := now_at;
                INSERT INTO changes VALUES (now_at, keys[i], NULL, true);
            ELSIF expects[i] IS NULL THEN
                outcome := 0;
            END IF;
        ELSE
            DELETE FROM leases
            WHERE id = lease_ids[i] AND (expects[i] IS NULL OR renewals = expects[i]);
            IF FOUND THEN
                FOR ended IN SELECT key FROM entries WHERE lease = lease_ids[i] ORDER BY key LOOP
                    DELETE FROM entries WHERE key = ended;
                    now_at := now_at + 1;
                    INSERT INTO changes VALUES (now_at, ended, NULL, true);
                END LOOP;
                outcome := now_at;
            END IF;
        END IF;
        outcomes := outcomes || outcome;
    END LOOP;
    IF now_at > before THEN
        UPDATE state SET last = now_at, trimmed = greatest(trimmed, now_at - kept_changes);
        DELETE FROM changes WHERE revision <= now_at - kept_changes;
        PERFORM pg_notify('magnetar_' || current_schema(), '');
    END IF;
    RETURN outcomes;
END $$"""

WRITE: Final = "SELECT write_all($1, $2, $3, $4, $5, $6, $7, $8, $9)"
GET: Final = "SELECT value, version FROM entries WHERE key = $1"
LIST: Final = """SELECT key FROM entries
    WHERE key >= $1 AND ($2::bytea IS NULL OR key < $2) AND key > $3 ORDER BY key LIMIT $4"""
READ_UNDER: Final = """SELECT key, value, version FROM (
        SELECT key, value, version, sum(length(value)) OVER (ORDER BY key) - length(value) AS above
        FROM entries
        WHERE key >= $1 AND ($2::bytea IS NULL OR key < $2) AND key > $3 ORDER BY key LIMIT $4
    ) found WHERE above < $5 ORDER BY key"""
POSITION: Final = "SELECT last FROM state"
CHANGES: Final = """SELECT s.last, s.trimmed, c.revision, c.key, c.is_deletion,
        coalesce(c.value, e.value) AS value
    FROM state s
    LEFT JOIN LATERAL (
        SELECT * FROM changes
        WHERE revision > $1 AND key >= $2 AND ($3::bytea IS NULL OR key < $3)
        ORDER BY revision LIMIT $4
    ) c ON true
    LEFT JOIN entries e ON e.key = c.key AND e.version = c.revision
    ORDER BY c.revision"""
GRANT: Final = "INSERT INTO leases (ttl_ms) VALUES ($1) RETURNING id"
RENEW: Final = "UPDATE leases SET renewals = renewals + 1 WHERE id = $1 RETURNING id"
LEASES: Final = "SELECT id, ttl_ms, renewals FROM leases"
