-- Operators' orders to many keys.
CREATE TABLE jobs (
    job_id     TEXT    NOT NULL PRIMARY KEY, -- a UUID
    tenant     TEXT    NOT NULL, -- empty: every tenant
    words      TEXT NOT NULL, -- the filter
    task       TEXT NOT NULL, -- the order with its arguments, in JSON
    dry_run    INTEGER NOT NULL CHECK (dry_run IN (0, 1)),
    asked_by   TEXT    NOT NULL,
    why        TEXT NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
    problem    TEXT, -- of a failed job
    matched    INTEGER, -- NULL: the keys are not selected yet
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    posted_at  INTEGER NOT NULL,
    started_at INTEGER,
    ended_at   INTEGER, -- NULL: the job waits or runs
    place      INTEGER, -- of a running job, from 1
    holder     TEXT    NOT NULL DEFAULT '', -- the id of the lease
    free_at    INTEGER NOT NULL DEFAULT 0, -- the end of the lease
    CHECK ((state = 'running') = (place IS NOT NULL) AND (state IN ('waiting', 'running')) = (ended_at IS NULL))
) STRICT;
-- One running job a place, and one a tenant, over all gateways.
CREATE UNIQUE INDEX jobs_of_place ON jobs (place) WHERE place IS NOT NULL;
CREATE UNIQUE INDEX jobs_running ON jobs (tenant) WHERE place IS NOT NULL;
CREATE INDEX jobs_without_end ON jobs (posted_at, job_id) WHERE ended_at IS NULL;
CREATE INDEX jobs_by_age ON jobs (posted_at, job_id);

-- The keys of a job with their results.
CREATE TABLE job_keys (
    job_id      TEXT    NOT NULL,
    workflow_id TEXT    NOT NULL, -- the key
    state       TEXT    NOT NULL CHECK (state IN ('left', 'sent', 'done', 'failed')),
    answer      TEXT, -- in JSON
    problem     TEXT,
    ended_at    INTEGER,
    PRIMARY KEY (job_id, workflow_id)
) STRICT;
CREATE INDEX job_keys_without_end ON job_keys (job_id, state, workflow_id) WHERE state IN ('left', 'sent');
CREATE INDEX job_keys_of_key ON job_keys (workflow_id); -- for erasure
