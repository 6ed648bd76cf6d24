-- The type by which a dead letter is decoded again, and the operator's emission of it.
ALTER TABLE dead_letters ADD COLUMN message_type TEXT;
ALTER TABLE dead_letters ADD COLUMN emitted_at INTEGER;
ALTER TABLE dead_letters ADD COLUMN emitted_by TEXT;
CREATE INDEX dead_letters_of_run ON dead_letters (run_id, seq);
