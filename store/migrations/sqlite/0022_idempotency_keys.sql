-- Keys under which an order was given, to one key or to many. The id is a hash of all that it identifies: tenant, issuer, caller, order
-- and key.
CREATE TABLE idempotency_keys (
    id             TEXT    NOT NULL PRIMARY KEY, -- a UUID
    content_sha256 TEXT    NOT NULL, -- of the first request, in hex
    used_at        INTEGER NOT NULL -- the last time
) STRICT;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (used_at);
