-- Tokens of the api.
CREATE TABLE api_tokens (
    id            TEXT NOT NULL PRIMARY KEY, -- hexadecimal digits
    secret_sha256 TEXT NOT NULL, -- in hex
    tenant        TEXT NOT NULL, -- empty: every tenant
    scopes        TEXT NOT NULL, -- a JSON array
    note          TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    expires_at    INTEGER, -- NULL: never
    revoked_at    INTEGER,
    last_used_at  INTEGER -- the beginning of a day in UTC
) STRICT;
