-- Operators' pauses: nothing goes out to the keys that one covers.
CREATE TABLE pauses (
    pause_id    TEXT    NOT NULL PRIMARY KEY, -- a UUID
    tenant      TEXT    NOT NULL, -- empty: every tenant
    digest_type TEXT    NOT NULL, -- empty: every digest type
    messages    INTEGER NOT NULL CHECK (messages IN (0, 1)), -- the tenant's single messages wait, too
    paused_at   INTEGER NOT NULL,
    paused_by   TEXT    NOT NULL,
    why         TEXT    NOT NULL,
    until_at    INTEGER, -- the pause is over then; NULL: until an operator ends it
    ended_at    INTEGER,
    ended_by    TEXT,
    ended_why   TEXT,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (ended_why IS NULL))
) STRICT;
-- A scope has one pause. The workers look for the pauses that cover a key by this index.
CREATE UNIQUE INDEX pauses_open ON pauses (tenant, digest_type) WHERE ended_at IS NULL;
