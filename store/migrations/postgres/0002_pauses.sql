-- Operators' pauses: nothing goes out to the keys that one covers.
CREATE TABLE pauses (
    pause_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- a UUID
    tenant      TEXT COLLATE "C" NOT NULL, -- empty: every tenant
    digest_type TEXT COLLATE "C" NOT NULL, -- empty: every digest type
    messages    BOOLEAN NOT NULL, -- the tenant's single messages wait, too
    paused_at   BIGINT NOT NULL,
    paused_by   TEXT COLLATE "C" NOT NULL,
    why         TEXT NOT NULL,
    until_at    BIGINT, -- the pause is over then; NULL: until an operator ends it
    ended_at    BIGINT,
    ended_by    TEXT COLLATE "C",
    ended_why   TEXT,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (ended_why IS NULL))
);
-- A scope has one pause. The workers look for the pauses that cover a key by this index.
CREATE UNIQUE INDEX pauses_open ON pauses (tenant, digest_type) WHERE ended_at IS NULL;
