-- A message that waits follows what changes (rule 60).

-- A hash of all that a digest's message is made from besides its events: where it would be another one today, the message is made again
-- before its next attempt. Empty: not known, so that the message is compared with one that is made today.
ALTER TABLE messages ADD COLUMN made_from TEXT NOT NULL DEFAULT '';
-- The digest has other events than the message: no attempt sends these bytes, and the next one makes others.
ALTER TABLE messages ADD COLUMN outdated INTEGER NOT NULL DEFAULT 0 CHECK (outdated IN (0, 1));
-- When it was made again, and its `Date`. NULL: made once, at `created_at`.
ALTER TABLE messages ADD COLUMN made_at INTEGER;
-- Since when the message cannot be made again, because its recipient or its digest type is unknown. NULL: it can.
ALTER TABLE messages ADD COLUMN missing_since INTEGER;
-- JSON array of the addresses that the message was made for before. NULL: none.
ALTER TABLE messages ADD COLUMN former_envelopes TEXT;
