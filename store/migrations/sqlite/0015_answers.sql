-- The last time when a team's own directory gave the row; none: an import or the api did.
ALTER TABLE recipients ADD COLUMN answered_at INTEGER;
