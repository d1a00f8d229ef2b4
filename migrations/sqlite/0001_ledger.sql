-- The books; the same tables and names as on PostgreSQL, see there for the why
-- of each column. Times are microseconds since 1970, money is minor units.

CREATE TABLE account (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    balance           INTEGER NOT NULL,
    version           INTEGER NOT NULL,
    revision          INTEGER NOT NULL,
    settings_revision INTEGER NOT NULL,
    floor             INTEGER,
    opened_at         INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    tenant            TEXT NOT NULL,
    account_id        TEXT NOT NULL,
    status            TEXT NOT NULL,
    currency          TEXT,
    metadata          TEXT,
    CONSTRAINT account_identity_key UNIQUE (tenant, account_id),
    CONSTRAINT account_version_check CHECK (version >= 0)
) STRICT;

CREATE TABLE event (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    account          INTEGER NOT NULL,
    version          INTEGER,
    amount           INTEGER NOT NULL,
    balance_after    INTEGER,
    floor            INTEGER,
    expected_version INTEGER,
    found_version    INTEGER,
    found_balance    INTEGER,
    occurred_at      INTEGER,
    first_seen_at    INTEGER NOT NULL,
    decided_at       INTEGER NOT NULL,
    decision         INTEGER NOT NULL,
    key              BLOB NOT NULL,
    derived          INTEGER NOT NULL,
    type             TEXT NOT NULL,
    status           TEXT NOT NULL,
    reason           TEXT,
    tenant           TEXT NOT NULL,
    source           TEXT NOT NULL,
    event_id         TEXT NOT NULL,
    account_id       TEXT NOT NULL,
    currency         TEXT,
    reference        TEXT,
    trail            TEXT,
    CONSTRAINT event_key_key UNIQUE (key),
    CONSTRAINT event_applied_check CHECK ((status = 'applied') = (version IS NOT NULL AND balance_after IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX event_account_version_key ON event (account, version) WHERE version IS NOT NULL;
-- SQLite sorts nulls first: the order of release puts those that name no version last by this expression.
CREATE INDEX event_parked_idx ON event (account, (expected_version IS NULL), expected_version, seq) WHERE version IS NULL AND status = 'parked';
CREATE INDEX event_parked_since_idx ON event (decided_at) WHERE version IS NULL AND status = 'parked';
CREATE INDEX event_aside_idx ON event (status, seq) WHERE version IS NULL;
CREATE INDEX event_aside_account_idx ON event (account, seq) WHERE version IS NULL;

CREATE TRIGGER event_is_final BEFORE UPDATE ON event WHEN OLD.status = 'applied'
BEGIN SELECT RAISE(ABORT, 'an entry is final'); END;
CREATE TRIGGER event_is_final_delete BEFORE DELETE ON event WHEN OLD.status = 'applied'
BEGIN SELECT RAISE(ABORT, 'an entry is final'); END;

CREATE TABLE event_detail (
    key      BLOB NOT NULL PRIMARY KEY,
    metadata TEXT,
    queue    TEXT,
    headers  TEXT,
    marks    TEXT,
    body     BLOB,
    correction TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE event_seen (
    key          BLOB NOT NULL PRIMARY KEY,
    copies       INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letter (
    id           BLOB NOT NULL PRIMARY KEY,
    seen         INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    resolved_at  INTEGER,
    digest       BLOB NOT NULL,
    event_key    BLOB,
    tenant       TEXT NOT NULL,
    status       TEXT NOT NULL,
    reason       TEXT NOT NULL,
    queue        TEXT NOT NULL,
    source       TEXT,
    event_id     TEXT,
    account_id   TEXT,
    detail       TEXT NOT NULL,
    headers      TEXT NOT NULL,
    marks        TEXT NOT NULL,
    body         BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX dead_letter_open_key ON dead_letter (digest) WHERE status = 'open';
CREATE INDEX dead_letter_list_idx ON dead_letter (tenant, id);
CREATE INDEX dead_letter_event_idx ON dead_letter (tenant, event_id);
CREATE INDEX dead_letter_event_key_idx ON dead_letter (event_key) WHERE event_key IS NOT NULL;

CREATE TABLE audit (
    id         BLOB NOT NULL PRIMARY KEY,
    at         INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    action     TEXT NOT NULL,
    account_id TEXT,
    detail     TEXT NOT NULL,
    note       TEXT
) STRICT;
CREATE INDEX audit_account_idx ON audit (tenant, account_id, id);
CREATE INDEX audit_list_idx ON audit (tenant, id);
