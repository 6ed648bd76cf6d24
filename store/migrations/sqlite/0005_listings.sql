-- Listings for operators, and dead letters that are emitted again.
CREATE INDEX digests_by_age ON digests (opened_at, digest_id);
CREATE INDEX audit_by_age ON audit (acted_at, audit_id);
CREATE INDEX audit_of_digest ON audit (digest_id) WHERE digest_id IS NOT NULL;
CREATE INDEX audit_of_message ON audit (message) WHERE message IS NOT NULL;

ALTER TABLE dead_letters ADD COLUMN emitted_at INTEGER; -- when an operator emitted it again
ALTER TABLE dead_letters ADD COLUMN emitted_by TEXT; -- the operator's login
CREATE INDEX dead_letters_of_run ON dead_letters (run_id, seq);
