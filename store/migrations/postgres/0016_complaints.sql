-- The rate of complaints, of a relay or of a tenant's mail by it: then the name is RELAY/TENANT. A cause may be complaints, too.
ALTER TABLE relays ADD COLUMN taken BIGINT NOT NULL DEFAULT 0; -- of the latest accepted messages
ALTER TABLE relays ADD COLUMN complained BIGINT NOT NULL DEFAULT 0; -- about them
