-- What recipients opened and clicked, by key, for digest types with `adapt`.

-- The message has a picture that counts openings.
ALTER TABLE messages ADD COLUMN counted INTEGER NOT NULL DEFAULT 0 CHECK (counted IN (0, 1));

-- The last times only. A machine's openings and clicks are not here.
CREATE TABLE readings (
    tenant      TEXT NOT NULL,
    digest_type TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    read_at     INTEGER, -- by a person
    sign_at     INTEGER NOT NULL, -- by a person, or by whom no header says
    PRIMARY KEY (tenant, digest_type, user_id)
) STRICT;
INSERT INTO readings (tenant, digest_type, user_id, read_at, sign_at)
SELECT m.tenant, m.digest_type, m.user_id, MAX(CASE WHEN e.machine = 'no' THEN e.occurred_at END), MAX(e.occurred_at)
FROM delivery_events e JOIN messages m ON m.id = e.message
WHERE e.kind IN ('opened', 'clicked') AND COALESCE(e.machine, '') <> 'yes' AND m.digest_id IS NOT NULL
  AND m.erased_at IS NULL
GROUP BY m.tenant, m.digest_type, m.user_id;
