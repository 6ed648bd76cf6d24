-- What operators read of the reports of providers.

-- Dead letters of webhooks are read again by a later version.

-- The head has the whole letter, apart from addresses. A former version cut it after 4,000 characters.
ALTER TABLE webhook_dead_letters ADD COLUMN whole BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE webhook_dead_letters SET whole = TRUE WHERE length(head) < 4000;

-- The operator's emission of the letter.
ALTER TABLE webhook_dead_letters ADD COLUMN emitted_at BIGINT;
ALTER TABLE webhook_dead_letters ADD COLUMN emitted_by TEXT;

-- The ids that stand in a letter. One of them may be a message's: the letter goes when the message's recipient is erased.
CREATE TABLE webhook_letter_ids (
    id     TEXT COLLATE "C" NOT NULL, -- a UUID
    relay  TEXT COLLATE "C" NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id, relay, sha256),
    FOREIGN KEY (relay, sha256) REFERENCES webhook_dead_letters (relay, sha256) ON DELETE CASCADE
);
CREATE INDEX webhook_letter_ids_of_letter ON webhook_letter_ids (relay, sha256);

-- What was reported of the message: one bit for each kind of report that counts. The message counts once for each.
ALTER TABLE messages ADD COLUMN reported BIGINT NOT NULL DEFAULT 0;
UPDATE messages SET reported = (
    SELECT SUM(DISTINCT CASE
        WHEN never_sent THEN 32
        WHEN kind = 'delivered' THEN 1
        WHEN kind = 'deferred' THEN 2
        WHEN kind = 'bounced' AND bounce = 'hard' THEN 4
        WHEN kind = 'bounced' AND bounce = 'soft' THEN 8
        WHEN kind = 'bounced' THEN 16
        WHEN kind = 'complained' THEN 64
        WHEN kind = 'unsubscribed' THEN 128
        WHEN kind = 'opened' AND machine = 'no' THEN 256
        WHEN kind = 'opened' AND machine = 'yes' THEN 512
        WHEN kind = 'opened' THEN 1024
        WHEN kind = 'clicked' AND machine = 'no' THEN 2048
        WHEN kind = 'clicked' AND machine = 'yes' THEN 4096
        ELSE 8192 END)
    FROM delivery_events e WHERE e.message = messages.id)
WHERE EXISTS (SELECT 1 FROM delivery_events e WHERE e.message = messages.id);

-- Messages that retention has deleted, counted by the day on which they were made.
CREATE TABLE message_days (
    tenant           TEXT COLLATE "C" NOT NULL,
    day              BIGINT NOT NULL, -- days since 1970-01-01 UTC
    digest_type      TEXT COLLATE "C" NOT NULL, -- empty for single messages
    template         TEXT COLLATE "C" NOT NULL, -- empty for parts that came ready
    relay            TEXT COLLATE "C" NOT NULL, -- the last that was given the message; empty for none
    sent             BIGINT NOT NULL,
    delivered        BIGINT NOT NULL,
    deferred         BIGINT NOT NULL,
    bounced_hard     BIGINT NOT NULL,
    bounced_soft     BIGINT NOT NULL,
    bounced_policy   BIGINT NOT NULL,
    never_sent       BIGINT NOT NULL,
    complained       BIGINT NOT NULL,
    unsubscribed     BIGINT NOT NULL,
    opened_people    BIGINT NOT NULL,
    opened_machines  BIGINT NOT NULL,
    opened_unknown   BIGINT NOT NULL,
    clicked_people   BIGINT NOT NULL,
    clicked_machines BIGINT NOT NULL,
    clicked_unknown  BIGINT NOT NULL,
    PRIMARY KEY (tenant, day, digest_type, template, relay)
);
CREATE INDEX message_days_by_day ON message_days (day);
