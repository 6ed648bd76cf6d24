-- Threads of a recipient's messages about one entity. Messages of earlier versions are in none.
ALTER TABLE messages ADD COLUMN thread TEXT; -- a UUID; NULL: in none
ALTER TABLE messages ADD COLUMN thread_at INTEGER; -- its digest's `opened_at`, which orders the thread
CREATE INDEX messages_of_thread ON messages (thread, thread_at) WHERE thread IS NOT NULL;
