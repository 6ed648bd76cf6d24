//! The statements that read the same in both databases.

pub const PUT_CONSENT: &str = "
INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET consent = excluded.consent, changed_at = excluded.changed_at
WHERE consents.consent <> excluded.consent";

pub const AUDIT: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8)";

/// The same command of the same operator in the same millisecond is the same.
pub const AUDIT_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, acted_at, actor, action, why)
SELECT $1, $2, $3, $4, $5, $6, $7
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND acted_at = $4
                  AND actor = $5 AND action = $6 AND why = $7)";

pub const SUPPRESS: &str = "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING";

pub const FACTS: &str = "
SELECT r.address, r.name, r.zone, r.locale, CAST(p.chosen AS TEXT), p.revision, c.consent, s.reason,
       (SELECT MAX(sent_at) FROM digests
        WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND sent_at IS NOT NULL)
FROM (SELECT 1 AS one) always
LEFT JOIN recipients r ON r.tenant = $1 AND r.user_id = $3
LEFT JOIN preferences p ON p.tenant = $1 AND p.digest_type = $2 AND p.user_id = $3
LEFT JOIN consents c ON c.tenant = $1 AND c.digest_type = $2 AND c.user_id = $3
LEFT JOIN suppressions s ON s.tenant = $1 AND s.address_lower = r.address_lower";

pub const OPEN_DIGEST: &str = "
INSERT INTO digests (tenant, digest_type, user_id, digest_id, opened_at, due_at, state)
VALUES ($1, $2, $3, $4, $5, $6, 'open') ON CONFLICT DO NOTHING";

pub const CLAIM_DIGEST: &str = "
UPDATE digests SET state = 'claimed', claimed_at = $2, due_at = $3 WHERE digest_id = $1 AND state = 'open'";

pub const TAKE_RETURNED: &str = "
UPDATE events SET returned_from = digest_id, digest_id = $4, returned_at = NULL
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL";

pub const CLOSE_DIGEST: &str = "
UPDATE digests SET state = 'closed', outcome = $2, why = $3, closed_at = $4 WHERE digest_id = $1 AND state <> 'closed'";

pub const RETURN_DIGEST: &str = "UPDATE digests SET returned_at = $2 WHERE digest_id = $1";
pub const RETURN_EVENTS: &str = "UPDATE events SET returned_at = $2 WHERE digest_id = $1";

pub const ITEMS_AND_GROUPS: &str = "
SELECT CAST(COALESCE(SUM(items), 0) AS BIGINT), COUNT(*)
FROM (SELECT COUNT(*) AS items FROM events WHERE digest_id = $1 GROUP BY category, entity_type, entity_id) lines";

pub const PUT_MESSAGE: &str = "
INSERT INTO messages (tenant, digest_type, user_id, digest_id, stream, envelope_from, envelope_to, message_id, subject,
                      bytes, template, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING";

pub const RENDERED_DIGEST: &str =
    "UPDATE digests SET state = 'rendered' WHERE digest_id = $1 AND state IN ('open', 'claimed')";

pub const MESSAGE: &str = "
SELECT tenant, digest_type, user_id, stream, envelope_from, envelope_to, message_id, subject, bytes, template, created_at
FROM messages WHERE digest_id = $1";

pub const FENCE: &str = "
UPDATE attempts SET fenced_at = $2, class = CASE WHEN past_the_dot_at IS NULL THEN 'fenced' ELSE 'ambiguous' END
WHERE digest_id = $1 AND class IS NULL";

/// Answers with (attempts, ambiguous ones among them).
pub const EARLIER_ATTEMPTS: &str = "
SELECT COALESCE(MAX(number), 0), COUNT(CASE WHEN class = 'ambiguous' THEN 1 END) FROM attempts WHERE digest_id = $1";

pub const BEGIN_ATTEMPT: &str =
    "INSERT INTO attempts (tenant, digest_id, number, relay, begun_at) VALUES ($1, $2, $3, $4, $5)";

pub const END_ATTEMPT: &str = "
UPDATE attempts SET ended_at = $3, phase = $4, class = $5, reply = $6
WHERE digest_id = $1 AND number = $2 AND class IS NULL";

pub const LATE_END: &str = "
UPDATE attempts SET late_at = $3, late_phase = $4, late_class = $5, late_reply = $6
WHERE digest_id = $1 AND number = $2 AND fenced_at IS NOT NULL AND late_at IS NULL";

pub const SENT_DIGEST: &str = "UPDATE digests SET sent_at = $2 WHERE digest_id = $1 AND sent_at IS NULL";

macro_rules! digest_columns {
    () => {
        "SELECT d.digest_id, d.tenant, d.digest_type, d.user_id, d.opened_at, d.due_at, d.state, d.outcome, d.why,
                d.closed_at, (SELECT COUNT(*) FROM events e WHERE e.digest_id = d.digest_id),
                (SELECT COUNT(*) FROM attempts a WHERE a.digest_id = d.digest_id),
                (SELECT COUNT(*) FROM attempts a WHERE a.digest_id = d.digest_id AND a.class = 'ambiguous')
         FROM digests d "
    };
}

pub const DIGEST: &str = concat!(digest_columns!(), "WHERE d.digest_id = $1");

pub const DIGESTS: &str = concat!(
    digest_columns!(),
    "WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 ORDER BY d.opened_at DESC, d.digest_id LIMIT $4"
);
