-- Names of digest types and of tenants that mean the same, because one was renamed. Each pair is here in both directions.
CREATE TABLE aliases (
    kind     TEXT    NOT NULL CHECK (kind IN ('digest', 'tenant')),
    name     TEXT    NOT NULL,
    alias    TEXT    NOT NULL,
    is_today INTEGER NOT NULL CHECK (is_today IN (0, 1)), -- `alias` is today's name
    PRIMARY KEY (kind, name, alias)
) STRICT;
