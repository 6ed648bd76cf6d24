-- The workers and gateways that are alive, each with what it works with, so that they can compare themselves. No personal data.
CREATE TABLE processes (
    id      TEXT NOT NULL PRIMARY KEY, -- drawn at each start
    seen_at INTEGER NOT NULL, -- by the clock of the database
    profile TEXT NOT NULL -- JSON
) STRICT;
ALTER TABLE installation ADD COLUMN upkeep_at INTEGER NOT NULL DEFAULT 0; -- the end of the last upkeep, or else the first beat; 0: neither
