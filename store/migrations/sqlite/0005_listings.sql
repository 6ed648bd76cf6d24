-- Listings for operators.
CREATE INDEX digests_by_age ON digests (opened_at, digest_id);
CREATE INDEX audit_by_age ON audit (acted_at, audit_id);
CREATE INDEX audit_of_digest ON audit (digest_id) WHERE digest_id IS NOT NULL;
CREATE INDEX audit_of_message ON audit (message) WHERE message IS NOT NULL;
