-- How often a failed digest has returned the event to its key. After two returns the event stays with its digest.
ALTER TABLE events ADD COLUMN returns INTEGER NOT NULL DEFAULT 0;
