-- What the webhooks of providers report.

-- The relay's own id of the message, in its answer to DATA. NULL: the answer named none, or a former version wrote the row.
ALTER TABLE attempts ADD COLUMN relay_id TEXT COLLATE "C";
CREATE INDEX attempts_by_relay_id ON attempts (relay_id) WHERE relay_id IS NOT NULL;

-- The provider kept the message back, and asked no server.
ALTER TABLE delivery_events ADD COLUMN never_sent BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE delivery_events ADD COLUMN machine TEXT COLLATE "C" CHECK (machine IN ('yes', 'no')); -- NULL: not known
ALTER TABLE delivery_events ADD COLUMN url TEXT; -- the link that was followed

-- Tokens that a provider signs instead of the request's body (Mailgun). Each counts for one body only.
CREATE TABLE webhook_tokens (
    relay       TEXT COLLATE "C" NOT NULL,
    token       TEXT COLLATE "C" NOT NULL,
    body_sha256 TEXT COLLATE "C" NOT NULL, -- in hex
    received_at BIGINT           NOT NULL,
    PRIMARY KEY (relay, token)
);
CREATE INDEX webhook_tokens_by_age ON webhook_tokens (received_at);

-- What authentic requests have in them that cannot be used.
CREATE TABLE webhook_dead_letters (
    relay     TEXT COLLATE "C" NOT NULL,
    sha256    TEXT COLLATE "C" NOT NULL, -- of all its bytes, in hex: the same again is the same letter
    reason    TEXT             NOT NULL,
    size      BIGINT           NOT NULL, -- bytes of the whole
    head      TEXT             NOT NULL, -- its first 4,000 characters, without addresses
    buried_at BIGINT           NOT NULL,
    PRIMARY KEY (relay, sha256)
);
CREATE INDEX webhook_dead_letters_by_age ON webhook_dead_letters (buried_at); -- for upkeep
