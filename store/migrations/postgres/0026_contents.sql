-- An id is all that it identifies: what an event of this id said, so that other content under the id is seen (rule 3).

-- SHA-256 of the canonical content without urgency and categories, which add up, in hex. NULL: written before this migration, or erased; any content counts as equal.
ALTER TABLE events ADD COLUMN content_sha256 TEXT COLLATE "C";
-- JSON array of the further categories under which the id came while the event waited. NULL: none.
ALTER TABLE events ADD COLUMN other_categories TEXT COLLATE "C";
-- The latest other content that came after the event was over, and when. It is in no message.
ALTER TABLE events ADD COLUMN refused_sha256 TEXT COLLATE "C";
ALTER TABLE events ADD COLUMN refused_at BIGINT;
CREATE INDEX events_refused ON events (refused_at) WHERE refused_at IS NOT NULL; -- for statistics

-- A retract of an id covers what came before it. Earlier versions wrote the end of time, and workers of these may still do so.
UPDATE retracts SET until_at = retracted_at WHERE event_id <> '' AND until_at > retracted_at;
