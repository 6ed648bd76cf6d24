-- All of a person, and all that a window may need, is found in what exists, whatever the file says today (rule 58).

-- Each folder that retention archived to, so that an erasure finds the lines after [retention] archive names another one.
CREATE TABLE archives (
    folder     TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- absolute
    begun_at   BIGINT, -- before its first file was written; NULL: none was
    first_file TEXT COLLATE "C" NOT NULL DEFAULT '', -- below the folder, by the age of its rows; empty: none is known
    last_file  TEXT COLLATE "C" NOT NULL DEFAULT '',
    failed_at  BIGINT, -- upkeep waits since then, because the folder takes nothing; NULL: it does not wait
    failure    TEXT
);

-- An open window needed the retract when upkeep last asked for it. It asks again half a day later.
ALTER TABLE retracts ADD COLUMN needed_at BIGINT;
