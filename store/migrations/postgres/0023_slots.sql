-- The time from which a digest counts for throttle and cap, if not from when it is claimed or goes out: its slot of the calendar.
ALTER TABLE digests ADD COLUMN slot_at BIGINT;
