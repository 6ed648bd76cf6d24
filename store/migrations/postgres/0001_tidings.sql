-- What Tidings remembers outside of Temporal. SQLite's migration has the same tables and columns.
--
-- `..._at` is a time in milliseconds since 1970-01-01 UTC. `digest_id` is a UUID in its hyphenated form, derived from
-- tenant, digest type and user among others. Text that is a key or ranks compares by bytes.

-- The directory: people by tenant.
CREATE TABLE recipients (
    tenant          TEXT COLLATE "C" NOT NULL,
    user_id         TEXT COLLATE "C" NOT NULL,
    address         TEXT NOT NULL,
    address_lower   TEXT COLLATE "C" NOT NULL, -- what suppressions are compared with
    name            TEXT NOT NULL,
    zone            TEXT NOT NULL, -- IANA; empty for the digest type's
    locale          TEXT NOT NULL, -- BCP 47; empty for `en`
    zone_revision   BIGINT NOT NULL, -- counts the changes of the zone
    zone_changed_at BIGINT, -- the last of them
    PRIMARY KEY (tenant, user_id)
);

-- What recipients chose for a digest type.
CREATE TABLE preferences (
    tenant      TEXT COLLATE "C" NOT NULL,
    digest_type TEXT COLLATE "C" NOT NULL,
    user_id     TEXT COLLATE "C" NOT NULL,
    chosen      JSONB NOT NULL, -- what is missing falls back to the configuration
    revision    BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest_type, user_id)
);

-- Whether mail is wanted at all; without a row it is.
CREATE TABLE consents (
    tenant      TEXT COLLATE "C" NOT NULL,
    digest_type TEXT COLLATE "C" NOT NULL,
    user_id     TEXT COLLATE "C" NOT NULL,
    consent     BOOLEAN NOT NULL,
    changed_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest_type, user_id)
);

-- Addresses that a tenant must not mail.
CREATE TABLE suppressions (
    tenant        TEXT COLLATE "C" NOT NULL,
    address_lower TEXT COLLATE "C" NOT NULL,
    reason        TEXT COLLATE "C" NOT NULL, -- `hard_bounce`, `soft_bounces`, `complaint` or `unsubscribed`
    detail        TEXT COLLATE "C" NOT NULL,
    suppressed_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, address_lower, reason)
);

-- One row per window that reached the ledger, and what became of it.
CREATE TABLE digests (
    digest_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant      TEXT COLLATE "C" NOT NULL,
    digest_type TEXT COLLATE "C" NOT NULL,
    user_id     TEXT COLLATE "C" NOT NULL,
    opened_at   BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'claimed', 'rendered', 'closed')),
    claimed_at  BIGINT,
    sent_at     BIGINT, -- first acceptance by the relay, whatever the outcome says
    closed_at   BIGINT,
    outcome     TEXT, -- the first end recorded, which stays
    why         TEXT,
    returned_at BIGINT, -- when its events were given back to the key's next claim
    purged_at   BIGINT, -- when the first of its events, or its message, was too old to be kept; it is not reopened
    emptied_at  BIGINT, -- since then upkeep looks for no events under it
    CHECK ((state = 'closed') = (closed_at IS NOT NULL) AND (state = 'closed') = (outcome IS NOT NULL))
);
CREATE INDEX digests_of_key ON digests (tenant, digest_type, user_id, opened_at);
CREATE INDEX digests_claimed ON digests (tenant, user_id, claimed_at) WHERE claimed_at IS NOT NULL; -- for the cap
CREATE INDEX digests_sent ON digests (tenant, digest_type, user_id, sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX digests_to_empty ON digests (closed_at, digest_id) WHERE emptied_at IS NULL; -- for upkeep

-- The ledger: every event that was written down, once per key.
CREATE TABLE events (
    tenant        TEXT COLLATE "C" NOT NULL,
    digest_type   TEXT COLLATE "C" NOT NULL,
    user_id       TEXT COLLATE "C" NOT NULL,
    event_id      TEXT COLLATE "C" NOT NULL,
    digest_id     TEXT COLLATE "C" NOT NULL REFERENCES digests (digest_id),
    category      TEXT COLLATE "C" NOT NULL,
    entity_type   TEXT COLLATE "C" NOT NULL,
    entity_id     TEXT COLLATE "C" NOT NULL,
    actor         TEXT COLLATE "C" NOT NULL,
    occurred_at   BIGINT NOT NULL,
    counts        JSONB NOT NULL, -- object of whole numbers
    urgent        BOOLEAN NOT NULL,
    payload       JSON NOT NULL, -- not JSONB, which has no \u0000
    recorded_at   BIGINT NOT NULL,
    returned_at   BIGINT, -- waits for the key's next claim since then
    returned_from TEXT COLLATE "C", -- the failed digest that it was under before
    PRIMARY KEY (tenant, digest_type, user_id, event_id)
);
CREATE INDEX events_of_digest ON events (digest_id, category, entity_type, entity_id, occurred_at, event_id);
CREATE INDEX events_returned ON events (tenant, digest_type, user_id) WHERE returned_at IS NOT NULL;

-- What takes events back, those that are here and those that are still to come: the event of an id, or all of one
-- category about one entity. The columns of the other kind are empty.
CREATE TABLE retracts (
    tenant       TEXT COLLATE "C" NOT NULL,
    digest_type  TEXT COLLATE "C" NOT NULL,
    user_id      TEXT COLLATE "C" NOT NULL,
    event_id     TEXT COLLATE "C" NOT NULL,
    category     TEXT COLLATE "C" NOT NULL,
    entity_type  TEXT COLLATE "C" NOT NULL,
    entity_id    TEXT COLLATE "C" NOT NULL,
    until_at     BIGINT NOT NULL, -- what occurred later stays; for the event of an id the end of time
    retracted_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest_type, user_id, event_id, category, entity_type, entity_id)
);
CREATE INDEX retracts_by_age ON retracts (retracted_at); -- for upkeep

-- The outbox: the bytes that every attempt sends. A message is the mail of a digest, or a single one that a service
-- handed over under a key of its own.
CREATE TABLE messages (
    id              TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the digest_id; of a single one made of tenant and idempotency_key
    digest_id       TEXT COLLATE "C" REFERENCES digests (digest_id),
    tenant          TEXT COLLATE "C" NOT NULL,
    digest_type     TEXT COLLATE "C" NOT NULL, -- empty for a single one
    user_id         TEXT COLLATE "C" NOT NULL, -- empty for an address that no directory has
    idempotency_key TEXT COLLATE "C",
    content_sha256  TEXT, -- in hex: of what was handed over under the key
    stream          TEXT NOT NULL, -- `transactional` or `bulk`
    envelope_from   TEXT NOT NULL,
    envelope_to     TEXT NOT NULL,
    message_id      TEXT NOT NULL,
    subject         TEXT NOT NULL,
    bytes           BYTEA NOT NULL,
    template        TEXT NOT NULL, -- empty for parts that came ready
    created_at      BIGINT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'delivered', 'deferred', 'failed',
                                                   'ambiguous', 'suppressed', 'cancelled')),
    sent_at         BIGINT, -- first acceptance by the relay, whatever the state says
    closed_at       BIGINT, -- its end, which stays
    why             TEXT,
    may_repeat      BIGINT NOT NULL, -- an operator let attempts up to this number be repeated, past the dot or not
    shrunk          BIGINT  NOT NULL, -- 1: rendered once more, smaller, because a relay found it too large
    UNIQUE (tenant, idempotency_key),
    CHECK ((digest_id IS NULL) = (idempotency_key IS NOT NULL) AND (digest_id IS NULL OR digest_id = id)),
    CHECK ((digest_id IS NULL) = (content_sha256 IS NOT NULL)),
    CHECK ((closed_at IS NULL) = (state IN ('queued', 'sending', 'deferred')))
);
CREATE INDEX messages_by_age ON messages (tenant, created_at);
CREATE INDEX messages_to ON messages (tenant, envelope_to, created_at);
CREATE INDEX messages_by_message_id ON messages (message_id);
CREATE INDEX messages_by_end ON messages (closed_at, id) WHERE closed_at IS NOT NULL; -- for upkeep

-- Attempts to deliver a message. One without a class is under way; the index allows one per message, and so a new
-- attempt fences every earlier one.
CREATE TABLE attempts (
    message         TEXT COLLATE "C" NOT NULL REFERENCES messages (id),
    number          BIGINT NOT NULL,
    tenant          TEXT COLLATE "C" NOT NULL,
    relay           TEXT NOT NULL,
    begun_at        BIGINT NOT NULL,
    past_the_dot_at BIGINT,
    ended_at        BIGINT,
    phase           TEXT,
    class           TEXT,
    reply           TEXT,
    fenced_at       BIGINT, -- a later attempt began before this one ended: class is `ambiguous` or `fenced` for good
    late_at         BIGINT, -- how it ended after it was fenced
    late_phase      TEXT,
    late_class      TEXT,
    late_reply      TEXT,
    PRIMARY KEY (message, number)
);
CREATE UNIQUE INDEX attempts_under_way ON attempts (message) WHERE class IS NULL;

-- What the relays' providers report of messages after they took them.
CREATE TABLE delivery_events (
    message       TEXT COLLATE "C" NOT NULL, -- which may be gone: each has an age of its own
    event         TEXT COLLATE "C" NOT NULL, -- a UUID made of what it says: what says the same again is the same
    tenant        TEXT COLLATE "C" NOT NULL,
    address_lower TEXT COLLATE "C" NOT NULL, -- the message's, for what is counted by address
    kind          TEXT NOT NULL CHECK (kind IN ('delivered', 'deferred', 'bounced', 'complained', 'opened', 'clicked',
                                                'unsubscribed')),
    bounce        TEXT CHECK (bounce IN ('hard', 'soft', 'policy')),
    status        TEXT, -- the enhanced one, `5.1.1`
    diagnostic    TEXT NOT NULL,
    relay         TEXT,
    event_id      TEXT, -- the provider's, which may be another when it tells the same again
    occurred_at   BIGINT NOT NULL, -- by the provider's clock
    received_at   BIGINT NOT NULL,
    PRIMARY KEY (message, event),
    CHECK ((kind = 'bounced') = (bounce IS NOT NULL))
);
CREATE INDEX delivery_events_of_address ON delivery_events (tenant, address_lower, occurred_at);
CREATE INDEX delivery_events_by_age ON delivery_events (received_at); -- for upkeep

-- What is remembered of relays, by all workers: when one is left alone, and which message tries it.
CREATE TABLE relays (
    name          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    revision      BIGINT NOT NULL, -- a change is made of the one before it
    state         TEXT NOT NULL CHECK (state IN ('closed', 'open')),
    cause         TEXT, -- why it is open: policy, configuration, outage, bounces, throttled or operator
    why           TEXT, -- in the relay's words, or the operator's
    opened_at     BIGINT,
    until_at      BIGINT, -- from then on one message at a time may try it; NULL: until an operator closes it
    times         BIGINT NOT NULL, -- it was opened since it was closed
    failures      BIGINT NOT NULL, -- to connect and log in, one after the other
    failing_since BIGINT,
    sent          BIGINT NOT NULL, -- of the latest outcomes
    bounced       BIGINT NOT NULL,
    probe_message TEXT COLLATE "C", -- the message that tries it
    probe_until   BIGINT,
    changed_at    BIGINT NOT NULL
);

-- Signals that could not be decoded. The workflow id may be malformed, too, and has no key then.
CREATE TABLE dead_letters (
    workflow_id TEXT COLLATE "C" NOT NULL,
    run_id      TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    reason      TEXT NOT NULL,
    encoding    TEXT NOT NULL,
    size        BIGINT NOT NULL, -- bytes of the whole payload
    sha256      TEXT NOT NULL, -- of the whole payload, in hex
    head        TEXT NOT NULL, -- its first 64 KiB, as base64
    buried_at   BIGINT NOT NULL,
    PRIMARY KEY (workflow_id, run_id, seq)
);
CREATE INDEX dead_letters_by_age ON dead_letters (buried_at); -- for upkeep

-- Who did what, when and why.
CREATE TABLE audit (
    audit_id    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acted_at    BIGINT NOT NULL,
    tenant      TEXT COLLATE "C" NOT NULL,
    digest_type TEXT COLLATE "C" NOT NULL,
    user_id     TEXT COLLATE "C" NOT NULL,
    digest_id   TEXT COLLATE "C",
    message     TEXT COLLATE "C", -- of a single one; digest_type and user_id are empty
    actor       TEXT COLLATE "C" NOT NULL,
    action      TEXT NOT NULL,
    why         TEXT NOT NULL
);
CREATE INDEX audit_of_key ON audit (tenant, digest_type, user_id, acted_at);
