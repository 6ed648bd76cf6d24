-- Events that the gateway accepted and that wait for the workflow of their key.
CREATE TABLE inbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of arrival
    workflow_id  TEXT    NOT NULL, -- the key
    tenant       TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('event', 'retract')),
    json         TEXT    NOT NULL, -- proto3-JSON without the key
    bytes        INTEGER NOT NULL, -- of json
    received_at  INTEGER NOT NULL,
    forwarded_at INTEGER -- NULL: it waits
) STRICT;
CREATE INDEX inbox_waiting ON inbox (workflow_id, id) WHERE forwarded_at IS NULL;
CREATE INDEX inbox_forwarded ON inbox (forwarded_at) WHERE forwarded_at IS NOT NULL; -- for upkeep

-- The forwarder that sends to a key, and the time from which another one may.
CREATE TABLE inbox_leases (
    workflow_id TEXT    NOT NULL PRIMARY KEY,
    holder      TEXT    NOT NULL, -- a UUID for each process
    free_at     INTEGER NOT NULL,
    failures    INTEGER NOT NULL
) STRICT;
