-- The identity of the installation, which the Temporal namespace has as well. One row, made by `tidings migrate`.
CREATE TABLE installation (
    one         BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    identity    TEXT COLLATE "C" NOT NULL,
    beat        TEXT COLLATE "C" NOT NULL, -- a worker changes it now and then, here and in the namespace
    before_beat TEXT COLLATE "C" NOT NULL,
    beat_at     BIGINT NOT NULL
);
