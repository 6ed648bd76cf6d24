-- Tokens of the api.
CREATE TABLE api_tokens (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- hexadecimal digits
    secret_sha256 TEXT COLLATE "C" NOT NULL, -- in hex
    tenant        TEXT COLLATE "C" NOT NULL, -- empty: every tenant
    scopes        TEXT NOT NULL, -- a JSON array
    note          TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    created_by    TEXT COLLATE "C" NOT NULL,
    expires_at    BIGINT, -- NULL: never
    revoked_at    BIGINT,
    last_used_at  BIGINT -- the beginning of a day in UTC
);
