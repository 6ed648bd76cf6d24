-- Runs in Temporal that no code of ours brings to an end.
CREATE TABLE troubled_runs (
    workflow_id TEXT NOT NULL, -- has the tenant, as each key does
    run_id      TEXT NOT NULL,
    tenant      TEXT NOT NULL, -- empty: of no tenant
    trouble     TEXT NOT NULL,
    since       INTEGER NOT NULL, -- the end of the run, or the start of an open one
    found_at    INTEGER NOT NULL,
    due_at      INTEGER, -- the sweep handles the run then; NULL: an operator does
    tries       INTEGER NOT NULL DEFAULT 0,
    ended_by    TEXT, -- an identity in Temporal
    why         TEXT, -- of whoever ended the run, or of a recovery that was refused
    resolution  TEXT, -- NULL: in the list
    resolved_at INTEGER,
    PRIMARY KEY (workflow_id, run_id),
    CHECK ((resolution IS NULL) = (resolved_at IS NULL))
) STRICT;
CREATE INDEX troubled_runs_listed ON troubled_runs (tenant, since, run_id) WHERE resolved_at IS NULL;
CREATE INDEX troubled_runs_due ON troubled_runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX troubled_runs_resolved ON troubled_runs (resolved_at) WHERE resolved_at IS NOT NULL;

-- One row: how far the sweep has looked, and which worker looks.
CREATE TABLE sweep (
    name        TEXT NOT NULL PRIMARY KEY,
    holder      TEXT NOT NULL,
    free_at     INTEGER NOT NULL,
    until_at    INTEGER NOT NULL,
    far_at      INTEGER NOT NULL,
    open_at     INTEGER NOT NULL
) STRICT;
