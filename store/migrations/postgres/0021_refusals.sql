-- What is remembered of recipients whom a relay refused although it may have meant us, as JSON without addresses.
ALTER TABLE relays ADD COLUMN refusals TEXT NOT NULL DEFAULT '';
