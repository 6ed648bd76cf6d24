-- The first attempt of a message is recorded when it comes to the final dot. A reopen of the message counts the epoch up, and so fences an
-- attempt that is not recorded.
ALTER TABLE messages ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
-- A random value of a first attempt, which tells it from another first attempt of the message.
ALTER TABLE attempts ADD COLUMN nonce TEXT;
