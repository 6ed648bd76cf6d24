-- Events that the gateway accepted and that wait for the workflow of their key.
CREATE TABLE inbox (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order of arrival
    workflow_id  TEXT COLLATE "C" NOT NULL, -- the key
    tenant       TEXT COLLATE "C" NOT NULL,
    user_id      TEXT COLLATE "C" NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL CHECK (kind IN ('event', 'retract')),
    json         TEXT NOT NULL, -- proto3-JSON without the key
    bytes        BIGINT NOT NULL, -- of json
    received_at  BIGINT NOT NULL,
    forwarded_at BIGINT -- NULL: it waits
);
CREATE INDEX inbox_waiting ON inbox (workflow_id, id) WHERE forwarded_at IS NULL;
CREATE INDEX inbox_forwarded ON inbox (forwarded_at) WHERE forwarded_at IS NOT NULL; -- for upkeep

-- The forwarder that sends to a key, and the time from which another one may.
CREATE TABLE inbox_leases (
    workflow_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder      TEXT COLLATE "C" NOT NULL, -- a UUID for each process
    free_at     BIGINT NOT NULL,
    failures    BIGINT NOT NULL
);
