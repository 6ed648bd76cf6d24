-- What a digest was planned by, and the number of its events, also after the events are purged. NULL: a former version wrote the row.
ALTER TABLE digests ADD COLUMN plan_why TEXT COLLATE "C"; -- every step that led to the time, in words
ALTER TABLE digests ADD COLUMN cadence TEXT COLLATE "C"; -- in the syntax of tidings.toml
ALTER TABLE digests ADD COLUMN zone TEXT COLLATE "C"; -- IANA
ALTER TABLE digests ADD COLUMN event_count BIGINT; -- fixed at the end, and once more before the first event is purged
-- For operators: digests, the latest first, and what was done with one. No column of these indexes changes.
CREATE INDEX digests_by_age ON digests (opened_at, digest_id);
CREATE INDEX audit_of_digest ON audit (digest_id) WHERE digest_id IS NOT NULL;
