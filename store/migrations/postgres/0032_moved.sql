-- A file that was copied into another database (`tidings copy`) is not used again by mistake. NULL: it was not copied. Its identity went with the
-- rows, and an earlier version, which does not know these columns, is refused by the other one that the file has instead.
ALTER TABLE installation ADD COLUMN moved_to TEXT; -- the address without its password
ALTER TABLE installation ADD COLUMN moved_at BIGINT;
ALTER TABLE installation ADD COLUMN moved_identity TEXT COLLATE "C"; -- what `identity` was
