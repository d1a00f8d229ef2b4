-- The books. Rules live in the program; what the database itself must see to
-- (one row an identity, one entry a version, entries that never change) is here.
--
-- Times are microseconds since 1970 from the caller's clock, money is minor
-- units: both bigint, first in each row, so that no padding is stored. Every
-- indexed text is COLLATE "C": compared as bytes, which is faster and the same
-- on every server.

CREATE TABLE account (
    id                bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT account_pkey PRIMARY KEY,
    balance           bigint NOT NULL,
    version           bigint NOT NULL,             -- 0: awaited, no account to the outside
    revision          bigint NOT NULL,             -- moved by all that is no entry
    settings_revision bigint NOT NULL,
    floor             bigint,                      -- null: no limit
    opened_at         bigint NOT NULL,
    updated_at        bigint NOT NULL,
    tenant            text COLLATE "C" NOT NULL,
    account_id        text COLLATE "C" NOT NULL,
    status            text NOT NULL,               -- awaited, open, frozen, closed
    currency          text,                        -- null only while awaited
    metadata          text,
    CONSTRAINT account_identity_key UNIQUE (tenant, account_id),
    CONSTRAINT account_version_check CHECK (version >= 0)
) WITH (fillfactor = 70);  -- room for HOT updates; no index on balance or version

-- What is expected of an account and what it becomes, as the ledger sends it.
CREATE TYPE account_move AS (
    id bigint, version bigint, revision bigint, balance bigint, moves boolean,
    version_after bigint, revision_after bigint, balance_after bigint, updated_after bigint
);

-- THE inbox, and where an event took effect THE history: one row an identity. Its
-- row type is what the ledger sends: a column more here is a field more there.
CREATE TABLE event (
    seq              bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT event_pkey PRIMARY KEY,
    account          bigint NOT NULL,              -- account.id; no foreign key: one writer path, and it costs a look-up a row
    version          bigint,                       -- that it produced; only where it was applied
    amount           bigint NOT NULL,
    balance_after    bigint,
    floor            bigint,                       -- the account's floor when it was applied
    expected_version bigint,                       -- as the event carried it
    found_version    bigint,                       -- the account when it was refused or parked
    found_balance    bigint,
    occurred_at      bigint,
    first_seen_at    bigint NOT NULL,
    decided_at       bigint NOT NULL,              -- the last judgement; parked: since when
    decision         bigint NOT NULL,              -- how many decisions the identity has had
    key              uuid NOT NULL,                -- first half of SHA-256 over (tenant, source, event_id)
    derived          boolean NOT NULL,
    type             text NOT NULL,                -- opening, debit, credit
    status           text NOT NULL,                -- pending, applied, rejected, parked, dead, discarded
    reason           text,
    tenant           text COLLATE "C" NOT NULL,
    source           text COLLATE "C" NOT NULL,
    event_id         text COLLATE "C" NOT NULL,
    account_id       text COLLATE "C" NOT NULL,
    currency         text,                         -- as the event carried it
    reference        text,
    trail            text,                         -- JSON: judgements before the last one
    CONSTRAINT event_key_key UNIQUE (key),
    CONSTRAINT event_applied_check CHECK ((status = 'applied') = (version IS NOT NULL AND balance_after IS NOT NULL))
);

-- No two entries of an account at one version; also the index of the history.
CREATE UNIQUE INDEX event_account_version_key ON event (account, version) WHERE version IS NOT NULL;
-- What waits, in the order in which it is released.
CREATE INDEX event_parked_idx ON event (account, expected_version NULLS LAST, seq) WHERE version IS NULL AND status = 'parked';
-- What the sweeper lets expire.
CREATE INDEX event_parked_since_idx ON event (decided_at) WHERE version IS NULL AND status = 'parked';
-- What is set aside, for an operator's lists.
CREATE INDEX event_aside_idx ON event (status, seq) WHERE version IS NULL;
CREATE INDEX event_aside_account_idx ON event (account, seq) WHERE version IS NULL;

-- An entry never changes and never goes.
CREATE FUNCTION event_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entry % of account % is final', OLD.version, OLD.account_id
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'event_is_final';
END $$;
CREATE TRIGGER event_is_final BEFORE UPDATE OR DELETE ON event
    FOR EACH ROW WHEN (OLD.status = 'applied') EXECUTE FUNCTION event_is_final();
CREATE FUNCTION event_no_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history is final' USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'event_is_final';
END $$;
CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event
    FOR EACH STATEMENT EXECUTE FUNCTION event_no_truncate();

-- What stands beside an event and may be emptied without touching an entry.
CREATE TABLE event_detail (
    key      uuid NOT NULL CONSTRAINT event_detail_pkey PRIMARY KEY,
    metadata text,
    queue    text,                                 -- the message as it came, for what did not apply at once
    headers  text,
    marks    text,
    body     bytea,
    correction text                                -- the last body that a person corrected
);

-- Copies seen, counted aside.
CREATE TABLE event_seen (
    key          uuid NOT NULL CONSTRAINT event_seen_pkey PRIMARY KEY,
    copies       bigint NOT NULL,
    last_seen_at bigint NOT NULL
) WITH (fillfactor = 70);

-- What never became an event, or waited too long.
CREATE TABLE dead_letter (
    id           uuid NOT NULL CONSTRAINT dead_letter_pkey PRIMARY KEY,
    seen         bigint NOT NULL,
    received_at  bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    resolved_at  bigint,
    digest       bytea NOT NULL,
    event_key    uuid,                             -- the stored event it belongs to
    tenant       text COLLATE "C" NOT NULL,
    status       text NOT NULL,                    -- open, replayed, discarded, superseded
    reason       text NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    source       text COLLATE "C",
    event_id     text COLLATE "C",
    account_id   text COLLATE "C",
    detail       text NOT NULL,                    -- JSON
    headers      text NOT NULL,                    -- JSON
    marks        text NOT NULL,
    body         bytea NOT NULL
);
-- One among the unresolved: the same again is seen once more.
CREATE UNIQUE INDEX dead_letter_open_key ON dead_letter (digest) WHERE status = 'open';
CREATE INDEX dead_letter_list_idx ON dead_letter (tenant, id);
CREATE INDEX dead_letter_event_idx ON dead_letter (tenant, event_id);
-- The letters of a stored event.
CREATE INDEX dead_letter_event_key_idx ON dead_letter (event_key) WHERE event_key IS NOT NULL;

-- Who did what, when and why.
CREATE TABLE audit (
    id         uuid NOT NULL CONSTRAINT audit_pkey PRIMARY KEY,
    at         bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    subject    text COLLATE "C" NOT NULL,
    action     text NOT NULL,
    account_id text COLLATE "C",
    detail     text NOT NULL,                      -- JSON
    note       text
);
CREATE INDEX audit_account_idx ON audit (tenant, account_id, id);
CREATE INDEX audit_list_idx ON audit (tenant, id);
