-- The identity of the installation, which the Temporal namespace has as well. One row, made by `tidings migrate`.
CREATE TABLE installation (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    identity    TEXT NOT NULL,
    beat        TEXT NOT NULL, -- a worker changes it now and then, here and in the namespace
    before_beat TEXT NOT NULL,
    beat_at     INTEGER NOT NULL
) STRICT;
