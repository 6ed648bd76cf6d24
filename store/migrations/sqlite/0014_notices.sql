-- Webhooks to services that subscribed. A trigger writes a notice in the transaction of the fact that the notice is about.

-- What the configuration subscribes to. Without a row no notice is written.
CREATE TABLE subscriptions (
    name        TEXT NOT NULL,
    event       TEXT NOT NULL, -- the type of its notices
    tenant      TEXT NOT NULL, -- empty: every tenant
    digest_type TEXT NOT NULL, -- empty: every digest type
    gone_at     INTEGER, -- its receiver answered 410 then; notices since then are dead letters
    PRIMARY KEY (event, name)
);

-- One row for each fact and subscription.
CREATE TABLE notices (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT, -- within a lane the order of the facts
    id             TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16)))), -- for the receiver
    subscription   TEXT NOT NULL,
    event          TEXT NOT NULL,
    lane           TEXT NOT NULL, -- notices of one lane are delivered in order: those of a key, or of a message
    tenant         TEXT NOT NULL,
    digest_type    TEXT NOT NULL, -- empty for a single message
    user_id        TEXT NOT NULL, -- empty for an address that no directory has
    digest_id      TEXT,
    message        TEXT,
    outcome        TEXT,
    reason         TEXT, -- one of a closed set, never the words of others
    occurred_at    INTEGER NOT NULL,
    recorded_at    INTEGER NOT NULL,
    tries          INTEGER NOT NULL DEFAULT 0,
    first_tried_at INTEGER, -- the 24 hours count from here
    retry_at       INTEGER NOT NULL DEFAULT 0, -- not before
    result         TEXT, -- of the last try
    ended_at       INTEGER -- NULL: it waits. Otherwise it was delivered, or is a dead letter
);
CREATE INDEX notices_waiting ON notices (subscription, seq) WHERE ended_at IS NULL;
CREATE INDEX notices_held_back ON notices (subscription, lane, seq) WHERE ended_at IS NULL AND retry_at > 0;
CREATE INDEX notices_ended ON notices (ended_at, seq) WHERE ended_at IS NOT NULL;
CREATE INDEX notices_of_user ON notices (tenant, user_id);

-- The end of a digest. A digest of left-out events begins with its end, and has no notice.
CREATE TRIGGER notice_of_ended_digest AFTER UPDATE OF outcome ON digests FOR EACH ROW
    WHEN OLD.outcome IS NULL AND NEW.outcome IS NOT NULL
BEGIN
    INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, digest_id, outcome, reason,
                         occurred_at, recorded_at, result, ended_at)
    SELECT s.name, s.event, NEW.tenant || '/' || NEW.digest_type || '/' || NEW.user_id,
           NEW.tenant, NEW.digest_type, NEW.user_id, NEW.digest_id, NEW.outcome,
           CASE WHEN s.event = 'digest.failed' THEN
               (SELECT a.class FROM attempts a WHERE a.message = NEW.digest_id ORDER BY a.number DESC LIMIT 1) END,
           NEW.closed_at, NEW.closed_at,
           CASE WHEN s.gone_at IS NOT NULL THEN 'gone' END, CASE WHEN s.gone_at IS NOT NULL THEN NEW.closed_at END
    FROM subscriptions s
    WHERE s.event = CASE NEW.outcome WHEN 'sent' THEN 'digest.sent' WHEN 'failed' THEN 'digest.failed'
                                     WHEN 'ambiguous' THEN 'digest.failed' ELSE 'digest.skipped' END
      AND s.tenant IN ('', NEW.tenant) AND s.digest_type IN ('', NEW.digest_type);
END;

-- The end of a single message.
CREATE TRIGGER notice_of_ended_message AFTER UPDATE OF closed_at ON messages FOR EACH ROW
    WHEN NEW.digest_id IS NULL AND OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL
BEGIN
    INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, message, outcome, reason,
                         occurred_at, recorded_at, result, ended_at)
    SELECT s.name, s.event,
           NEW.tenant || '//' || CASE NEW.user_id WHEN '' THEN NEW.id ELSE NEW.user_id END,
           NEW.tenant, '', NEW.user_id, NEW.id, NEW.state,
           CASE WHEN s.event = 'message.failed' THEN
               (SELECT a.class FROM attempts a WHERE a.message = NEW.id ORDER BY a.number DESC LIMIT 1) END,
           NEW.closed_at, NEW.closed_at,
           CASE WHEN s.gone_at IS NOT NULL THEN 'gone' END, CASE WHEN s.gone_at IS NOT NULL THEN NEW.closed_at END
    FROM subscriptions s
    WHERE s.event = CASE NEW.state WHEN 'sent' THEN 'message.sent' WHEN 'failed' THEN 'message.failed'
                                   WHEN 'ambiguous' THEN 'message.failed' ELSE 'message.skipped' END
      AND s.tenant IN ('', NEW.tenant) AND s.digest_type = '';
END;

-- A report about a message, of a digest or single, which may be gone.
CREATE TRIGGER notice_of_report AFTER INSERT ON delivery_events FOR EACH ROW
BEGIN
    INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, digest_id, message, reason,
                         occurred_at, recorded_at, result, ended_at)
    SELECT s.name, s.event,
           NEW.tenant || '/' || COALESCE(m.digest_type, '') || '/' || COALESCE(NULLIF(m.user_id, ''), NEW.message),
           NEW.tenant, COALESCE(m.digest_type, ''), COALESCE(m.user_id, ''), m.digest_id, NEW.message,
           COALESCE(NEW.bounce, CASE NEW.machine WHEN 'yes' THEN 'machine' WHEN 'no' THEN 'person' END),
           NEW.occurred_at, NEW.received_at,
           CASE WHEN s.gone_at IS NOT NULL THEN 'gone' END, CASE WHEN s.gone_at IS NOT NULL THEN NEW.received_at END
    FROM subscriptions s LEFT JOIN messages m ON m.id = NEW.message
    WHERE s.event = 'message.' || NEW.kind
      AND s.tenant IN ('', NEW.tenant) AND s.digest_type IN ('', m.digest_type);
END;

-- A change of consent. Without a row a digest is wanted.
CREATE TRIGGER notice_of_changed_consent AFTER UPDATE OF consent ON consents FOR EACH ROW
    WHEN OLD.consent <> NEW.consent
BEGIN
    INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, occurred_at, recorded_at, result, ended_at)
    SELECT s.name, s.event, NEW.tenant || '/' || NEW.digest_type || '/' || NEW.user_id,
           NEW.tenant, NEW.digest_type, NEW.user_id, NEW.changed_at, NEW.changed_at,
           CASE WHEN s.gone_at IS NOT NULL THEN 'gone' END, CASE WHEN s.gone_at IS NOT NULL THEN NEW.changed_at END
    FROM subscriptions s
    WHERE s.event = CASE WHEN NEW.consent THEN 'recipient.resubscribed' ELSE 'recipient.unsubscribed' END
      AND s.tenant IN ('', NEW.tenant) AND s.digest_type IN ('', NEW.digest_type);
END;

CREATE TRIGGER notice_of_new_consent AFTER INSERT ON consents FOR EACH ROW
    WHEN NOT NEW.consent
BEGIN
    INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, occurred_at, recorded_at, result, ended_at)
    SELECT s.name, s.event, NEW.tenant || '/' || NEW.digest_type || '/' || NEW.user_id,
           NEW.tenant, NEW.digest_type, NEW.user_id, NEW.changed_at, NEW.changed_at,
           CASE WHEN s.gone_at IS NOT NULL THEN 'gone' END, CASE WHEN s.gone_at IS NOT NULL THEN NEW.changed_at END
    FROM subscriptions s
    WHERE s.event = CASE WHEN NEW.consent THEN 'recipient.resubscribed' ELSE 'recipient.unsubscribed' END
      AND s.tenant IN ('', NEW.tenant) AND s.digest_type IN ('', NEW.digest_type);
END;
