-- Erasure of a person (GDPR, article 17).

-- The pseudonym of the address, as suppressions of erased people have it. NULL: written before this migration.
ALTER TABLE recipients ADD COLUMN pseudonym TEXT;

-- The texts of the row are gone since then.
ALTER TABLE digests ADD COLUMN erased_at INTEGER;
ALTER TABLE events ADD COLUMN erased_at INTEGER;
ALTER TABLE messages ADD COLUMN erased_at INTEGER;

-- Random keys of this database.
CREATE TABLE secrets (
    name       TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL, -- in hex
    created_at INTEGER NOT NULL
) STRICT;
