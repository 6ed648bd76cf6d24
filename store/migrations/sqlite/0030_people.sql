-- Who has an id, one person after the other, and the ids that one person had.

-- An erasure raises the number, and links of before belong to nobody. Without a row it is 0.
CREATE TABLE generations (
    tenant     TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (tenant, user_id)
) STRICT;

-- Links to the earlier id lead to the later one once `moved_at` is set.
CREATE TABLE renames (
    tenant             TEXT    NOT NULL,
    user_id            TEXT    NOT NULL,
    generation         INTEGER NOT NULL, -- of whoever had the earlier id
    renamed_to         TEXT    NOT NULL, -- the later id
    renamed_generation INTEGER NOT NULL,
    moved_at           INTEGER, -- NULL: the command did not come so far
    PRIMARY KEY (tenant, user_id, generation)
) STRICT;
CREATE INDEX renames_to ON renames (tenant, renamed_to);

-- Addresses of erased people, under pseudonyms only: whatever suppresses one of them later must not write it in clear.
CREATE TABLE erased_addresses (
    tenant    TEXT    NOT NULL,
    pseudonym TEXT    NOT NULL,
    PRIMARY KEY (tenant, pseudonym)
) STRICT;

-- No notice names the next person with the id of one who was erased.
DROP TRIGGER notice_of_report;
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
    WHERE s.event = 'message.' || NEW.kind AND m.erased_at IS NULL
      AND s.tenant IN ('', NEW.tenant) AND s.digest_type IN ('', m.digest_type);
END;
