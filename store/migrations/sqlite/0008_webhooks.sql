-- What the webhooks of providers report.

-- The relay's own id of the message, in its answer to DATA. NULL: the answer named none, or a former version wrote the row.
ALTER TABLE attempts ADD COLUMN relay_id TEXT;
CREATE INDEX attempts_by_relay_id ON attempts (relay_id) WHERE relay_id IS NOT NULL;

-- 1: the provider kept the message back, and asked no server.
ALTER TABLE delivery_events ADD COLUMN never_sent INTEGER NOT NULL DEFAULT 0 CHECK (never_sent IN (0, 1));
ALTER TABLE delivery_events ADD COLUMN machine TEXT CHECK (machine IN ('yes', 'no')); -- NULL: not known
ALTER TABLE delivery_events ADD COLUMN url TEXT; -- the link that was followed

-- Tokens that a provider signs instead of the request's body (Mailgun). Each counts for one body only.
CREATE TABLE webhook_tokens (
    relay       TEXT    NOT NULL,
    token       TEXT    NOT NULL,
    body_sha256 TEXT    NOT NULL, -- in hex
    received_at INTEGER NOT NULL,
    PRIMARY KEY (relay, token)
) STRICT;
CREATE INDEX webhook_tokens_by_age ON webhook_tokens (received_at);

-- What authentic requests have in them that cannot be used.
CREATE TABLE webhook_dead_letters (
    relay     TEXT    NOT NULL,
    sha256    TEXT    NOT NULL, -- of all its bytes, in hex: the same again is the same letter
    reason    TEXT    NOT NULL,
    size      INTEGER NOT NULL, -- bytes of the whole
    head      TEXT    NOT NULL, -- its first 4,000 characters, without addresses
    buried_at INTEGER NOT NULL,
    PRIMARY KEY (relay, sha256)
) STRICT;
CREATE INDEX webhook_dead_letters_by_age ON webhook_dead_letters (buried_at); -- for upkeep
