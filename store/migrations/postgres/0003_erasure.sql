-- Erasure of a person (GDPR, article 17).

-- The pseudonym of the address, as suppressions of erased people have it. NULL: written before this migration.
ALTER TABLE recipients ADD COLUMN pseudonym TEXT COLLATE "C";

-- The texts of the row are gone since then.
ALTER TABLE digests ADD COLUMN erased_at BIGINT;
ALTER TABLE events ADD COLUMN erased_at BIGINT;
ALTER TABLE messages ADD COLUMN erased_at BIGINT;

-- Random keys of this database.
CREATE TABLE secrets (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value      TEXT COLLATE "C" NOT NULL, -- in hex
    created_at BIGINT NOT NULL
);
