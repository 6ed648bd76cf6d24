-- What operators read of the reports of providers.

-- Dead letters of webhooks are read again by a later version.

-- 1: the head has the whole letter, apart from addresses. A former version cut it after 4,000 characters.
ALTER TABLE webhook_dead_letters ADD COLUMN whole INTEGER NOT NULL DEFAULT 0 CHECK (whole IN (0, 1));
UPDATE webhook_dead_letters SET whole = 1 WHERE length(head) < 4000;

-- The operator's emission of the letter.
ALTER TABLE webhook_dead_letters ADD COLUMN emitted_at INTEGER;
ALTER TABLE webhook_dead_letters ADD COLUMN emitted_by TEXT;

-- The ids that stand in a letter. One of them may be a message's: the letter goes when the message's recipient is erased.
CREATE TABLE webhook_letter_ids (
    id     TEXT NOT NULL, -- a UUID
    relay  TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (id, relay, sha256),
    FOREIGN KEY (relay, sha256) REFERENCES webhook_dead_letters (relay, sha256) ON DELETE CASCADE
) STRICT;
CREATE INDEX webhook_letter_ids_of_letter ON webhook_letter_ids (relay, sha256);

-- What was reported of the message: one bit for each kind of report that counts. The message counts once for each.
ALTER TABLE messages ADD COLUMN reported INTEGER NOT NULL DEFAULT 0;
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
    tenant           TEXT NOT NULL,
    day              INTEGER NOT NULL, -- days since 1970-01-01 UTC
    digest_type      TEXT NOT NULL, -- empty for single messages
    template         TEXT NOT NULL, -- empty for parts that came ready
    relay            TEXT NOT NULL, -- the last that was given the message; empty for none
    sent             INTEGER NOT NULL,
    delivered        INTEGER NOT NULL,
    deferred         INTEGER NOT NULL,
    bounced_hard     INTEGER NOT NULL,
    bounced_soft     INTEGER NOT NULL,
    bounced_policy   INTEGER NOT NULL,
    never_sent       INTEGER NOT NULL,
    complained       INTEGER NOT NULL,
    unsubscribed     INTEGER NOT NULL,
    opened_people    INTEGER NOT NULL,
    opened_machines  INTEGER NOT NULL,
    opened_unknown   INTEGER NOT NULL,
    clicked_people   INTEGER NOT NULL,
    clicked_machines INTEGER NOT NULL,
    clicked_unknown  INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, digest_type, template, relay)
) STRICT;
CREATE INDEX message_days_by_day ON message_days (day);
