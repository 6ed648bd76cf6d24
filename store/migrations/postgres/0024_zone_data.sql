-- The newest release of zone data that any worker had, such as 2026f.
ALTER TABLE installation ADD COLUMN zone_release TEXT COLLATE "C" NOT NULL DEFAULT '';

-- For the zones that no data has.
CREATE INDEX recipients_by_zone ON recipients (zone, tenant) WHERE zone <> '';
CREATE INDEX preferences_by_zone ON preferences ((chosen->>'zone'), tenant) WHERE chosen->>'zone' IS NOT NULL;
