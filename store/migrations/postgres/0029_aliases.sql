-- Names of digest types and of tenants that mean the same, because one was renamed. Each pair is here in both directions.
CREATE TABLE aliases (
    kind     TEXT COLLATE "C" NOT NULL CHECK (kind IN ('digest', 'tenant')),
    name     TEXT COLLATE "C" NOT NULL,
    alias    TEXT COLLATE "C" NOT NULL,
    is_today BOOLEAN NOT NULL, -- `alias` is today's name
    PRIMARY KEY (kind, name, alias)
);
