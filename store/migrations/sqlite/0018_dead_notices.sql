-- Notices that were not delivered are counted and listed by subscription.
CREATE INDEX notices_dead ON notices (subscription, ended_at, seq) WHERE ended_at IS NOT NULL AND result <> 'delivered';
