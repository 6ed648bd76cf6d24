//! The statements that read the same in both databases.

/// `$6`: the latest change that this one may follow.
pub const PUT_CONSENT: &str = "
INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET consent = excluded.consent, changed_at = excluded.changed_at
WHERE consents.consent <> excluded.consent AND consents.changed_at <= $6";

/// What reports from before do not change is what the recipient wanted last.
pub const GRANTED_AGAIN: &str = "
UPDATE consents SET changed_at = $4
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND consent AND changed_at < $4";

pub const AUDIT: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8)";

/// The same command of the same operator in the same millisecond is the same.
pub const AUDIT_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
SELECT $1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND acted_at = $5
                  AND COALESCE(digest_id, '') = $4 AND actor = $6 AND action = $7 AND why = $8)";

pub const SUPPRESS: &str = "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, address_lower, reason) DO UPDATE SET detail = excluded.detail, suppressed_at = excluded.suppressed_at
WHERE suppressions.suppressed_at > excluded.suppressed_at
   OR suppressions.suppressed_at = excluded.suppressed_at AND suppressions.detail > excluded.detail";

/// `$1` tenant, `$2` address; each may be empty. `$3` limit.
pub const SUPPRESSIONS: &str = "
SELECT tenant, address_lower, reason, detail, suppressed_at FROM suppressions
WHERE (tenant = $1 OR $1 = '') AND (address_lower = $2 OR $2 = '')
ORDER BY suppressed_at DESC, tenant, address_lower, reason LIMIT $3";

pub const USERS_AT: &str = "SELECT user_id FROM recipients WHERE tenant = $1 AND address_lower = $2 ORDER BY user_id";

pub const LIFT: &str = "DELETE FROM suppressions WHERE tenant = $1 AND address_lower = $2 AND reason = $3";

pub const REVISION: &str = "SELECT revision FROM preferences WHERE tenant = $1 AND digest_type = $2 AND user_id = $3";

pub const FACTS: &str = "
SELECT r.address, r.name, r.zone, r.locale, r.zone_revision, r.zone_changed_at, CAST(p.chosen AS TEXT) AS chosen, p.revision,
       p.changed_at, c.consent,
       (SELECT s.reason FROM suppressions s WHERE s.tenant = $1 AND s.address_lower = r.address_lower
        ORDER BY s.suppressed_at, s.reason LIMIT 1) AS suppressed,
       (SELECT MAX(sent_at) FROM digests
        WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND sent_at IS NOT NULL) AS last_sent_at
FROM (SELECT 1 AS one) always
LEFT JOIN recipients r ON r.tenant = $1 AND r.user_id = $3
LEFT JOIN preferences p ON p.tenant = $1 AND p.digest_type = $2 AND p.user_id = $3
LEFT JOIN consents c ON c.tenant = $1 AND c.digest_type = $2 AND c.user_id = $3";

/// Answers with (state, outcome, why) of the digest, new or not, and keeps the row for the transaction.
pub const OPEN_DIGEST: &str = "
INSERT INTO digests (tenant, digest_type, user_id, digest_id, opened_at, due_at, state)
VALUES ($1, $2, $3, $4, $5, $6, 'open') ON CONFLICT (digest_id) DO UPDATE SET digest_id = excluded.digest_id
RETURNING state, outcome, why";

pub const CLAIM_DIGEST: &str = "
UPDATE digests SET state = 'claimed', claimed_at = $2, due_at = $3 WHERE digest_id = $1 AND state = 'open'";

pub const TAKE_RETURNED: &str = "
UPDATE events SET returned_from = digest_id, digest_id = $4, returned_at = NULL
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM events own WHERE own.digest_id = $4)";

/// Whether the digest `$1`, which is locked, was left behind by a window that opened before `$2`.
pub const WAS_LEFT_BEHIND: &str = "
SELECT 1 FROM digests WHERE digest_id = $1 AND opened_at < $2 AND state <> 'closed'
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1)";
pub const ADOPT_EVENTS: &str = "UPDATE events SET returned_from = digest_id, digest_id = $2 WHERE digest_id = $1";
pub const ADOPT_EVENT: &str =
    concat!("UPDATE events SET returned_from = digest_id, digest_id = $2 ", "WHERE digest_id = $1 AND event_id = $3");

/// Digests of the recipient that were mails since then, or may become some; latest first.
pub const CLAIMED_SINCE: &str = "
SELECT claimed_at FROM digests
WHERE tenant = $1 AND user_id = $2 AND claimed_at > $3 AND digest_id <> $4
  AND (outcome IS NULL OR outcome IN ('sent', 'ambiguous'))
ORDER BY claimed_at DESC LIMIT $5";

/// The events under the digest `$1` that a retract covers.
macro_rules! retracted {
    () => {
        "digest_id = $1 AND (
    EXISTS (SELECT 1 FROM retracts r
            WHERE r.tenant = events.tenant AND r.digest_type = events.digest_type AND r.user_id = events.user_id
              AND r.event_id = events.event_id AND r.category = '' AND r.entity_type = '' AND r.entity_id = '')
    OR EXISTS (SELECT 1 FROM retracts r
            WHERE r.tenant = events.tenant AND r.digest_type = events.digest_type AND r.user_id = events.user_id
              AND r.event_id = '' AND r.category = events.category AND r.entity_type = events.entity_type
              AND r.entity_id = events.entity_id AND events.occurred_at <= r.until_at))"
    };
}

/// Opens and ends the digest `$2` beside `$1`; `$3` now, `$4` why.
pub const ASIDE: &str = "
INSERT INTO digests (digest_id, tenant, digest_type, user_id, opened_at, due_at, state, closed_at, outcome, why)
SELECT $2, tenant, digest_type, user_id, opened_at, due_at, 'closed', $3, 'skipped', $4
FROM digests WHERE digest_id = $1
ON CONFLICT (digest_id) DO UPDATE SET closed_at = excluded.closed_at, emptied_at = NULL";

pub const ANY_RETRACTED: &str =
    concat!("SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE ", retracted!(), " LIMIT 1) any_of_them");
pub const MOVE_RETRACTED: &str = concat!("UPDATE events SET digest_id = $2 WHERE ", retracted!());
pub const ANY_OF_CATEGORY: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE digest_id = $1 AND category = $2 LIMIT 1) any_of_them";
pub const MOVE_CATEGORY: &str = "UPDATE events SET digest_id = $2 WHERE digest_id = $1 AND category = $3";

pub const CLOSE_DIGEST: &str = "
UPDATE digests SET state = 'closed', outcome = $2, why = $3, closed_at = $4,
    sent_at = CASE WHEN $2 = 'sent' THEN COALESCE(sent_at, $4) ELSE sent_at END
WHERE digest_id = $1 AND state <> 'closed'";

pub const RETURN_DIGEST: &str = "UPDATE digests SET returned_at = $2 WHERE digest_id = $1";
pub const RETURN_EVENTS: &str = "UPDATE events SET returned_at = $2 WHERE digest_id = $1";

/// How many events a digest has, how many groups, and what else is asked for.
macro_rules! items_and_groups {
    ($($more:expr)?) => {
        concat!(
            "SELECT CAST(COALESCE(SUM(items), 0) AS BIGINT) AS items, COUNT(*) AS groups",
            $(", ", $more, " AS counts",)?
            " FROM (SELECT COUNT(*) AS items FROM events WHERE digest_id = $1
                    GROUP BY category, entity_type, entity_id) lines"
        )
    };
}
pub(super) use items_and_groups;

pub const ITEMS_AND_GROUPS: &str = items_and_groups!();

pub const COUNT_ASIDE: &str = "SELECT COUNT(*) FROM events WHERE digest_id IN ($1, $2)";

/// Attempts after which the recipient may have the mail. What the relay refused after the dot is none of them.
pub const MAYBE_DELIVERED: &str = "
SELECT number FROM attempts
WHERE message = $1 AND (class = 'ambiguous' OR past_the_dot_at IS NOT NULL AND class IN ('fenced', 'cancelled')) LIMIT 1";

pub const REOPEN_DIGEST: &str = "
UPDATE digests SET closed_at = NULL, outcome = NULL, why = NULL, returned_at = NULL, claimed_at = COALESCE(claimed_at, $2),
    state = CASE WHEN EXISTS (SELECT 1 FROM messages WHERE id = $1) THEN 'rendered' ELSE 'claimed' END
WHERE digest_id = $1";
/// `$2`: attempts past the dot may be repeated.
pub const REOPEN_MESSAGE: &str = "
UPDATE messages SET state = 'queued', closed_at = NULL, why = NULL,
    may_repeat = CASE WHEN $2 THEN (SELECT COALESCE(MAX(number), 0) FROM attempts WHERE message = $1) ELSE may_repeat END
WHERE id = $1";
pub const TAKE_BACK_EVENTS: &str =
    "UPDATE events SET returned_at = NULL WHERE digest_id = $1 AND returned_at IS NOT NULL";
/// Answers with a row when its events were given back, and with one when the relay took its message.
pub const WAS_RETURNED: &str = "SELECT returned_at FROM digests WHERE digest_id = $1 AND returned_at IS NOT NULL";
pub const WAS_SENT: &str = "SELECT sent_at FROM digests WHERE digest_id = $1 AND sent_at IS NOT NULL";

pub const PUT_MESSAGE: &str = "
INSERT INTO messages (tenant, digest_type, user_id, id, digest_id, idempotency_key, content_sha256, stream, envelope_from,
                      envelope_to, message_id, subject, bytes, template, created_at, state, may_repeat, shrunk)
VALUES ($1, $2, $3, $4, NULLIF($5, ''), NULLIF($6, ''), NULLIF($7, ''), $8, $9, $10, $11, $12, $13, $14, $15, 'queued', 0, 0)
ON CONFLICT DO NOTHING";

pub const RENDERED_DIGEST: &str =
    "UPDATE digests SET state = 'rendered' WHERE digest_id = $1 AND state IN ('open', 'claimed')";

pub const MESSAGE: &str = "
SELECT id, tenant, digest_type, user_id, idempotency_key, content_sha256, stream, envelope_from, envelope_to, message_id,
       subject, bytes, template, created_at, may_repeat
FROM messages WHERE id = $1";

/// Only by the attempt that is under way, because no other one may be sending the bytes; and not where the recipient may
/// have the large one. Its answer may be lost: the same bytes once more are the same.
pub const SHRINK_MESSAGE: &str = "
UPDATE messages SET subject = $3, bytes = $4, template = $5, shrunk = 1
WHERE id = $1 AND (shrunk = 0 OR bytes = $4) AND closed_at IS NULL
  AND EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND number = $2 AND class IS NULL)
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND class = 'ambiguous')";

/// `$1` message, `$2` class, `$3` limit: of that many messages to the same address that ended before, how many ended so.
pub const ENDED_ALIKE: &str = "
SELECT COUNT(*) FROM (
    SELECT (SELECT class FROM attempts a WHERE a.message = m.id ORDER BY number DESC LIMIT 1) AS class
    FROM messages m JOIN messages this ON this.id = $1 AND m.tenant = this.tenant AND m.envelope_to = this.envelope_to
    WHERE m.id <> $1 AND m.closed_at IS NOT NULL AND EXISTS (SELECT 1 FROM attempts a WHERE a.message = m.id)
    ORDER BY m.created_at DESC, m.id LIMIT $3) latest
WHERE class = $2";

pub const FENCE: &str = "
UPDATE attempts SET fenced_at = $2, class = CASE WHEN past_the_dot_at IS NULL THEN 'fenced' ELSE 'ambiguous' END
WHERE message = $1 AND class IS NULL";

/// `$1` message, `$2` number. Answers with (attempts, ambiguous ones among those after that number).
pub const EARLIER_ATTEMPTS: &str = "
SELECT COALESCE(MAX(number), 0), COUNT(CASE WHEN class = 'ambiguous' AND number > $2 THEN 1 END)
FROM attempts WHERE message = $1";

pub const BEGIN_ATTEMPT: &str =
    "INSERT INTO attempts (tenant, message, number, relay, begun_at) VALUES ($1, $2, $3, $4, $5)";

pub const END_ATTEMPT: &str = "
UPDATE attempts SET ended_at = $3, phase = $4, class = $5, reply = $6
WHERE message = $1 AND number = $2 AND class IS NULL";

pub const LATE_END: &str = "
UPDATE attempts SET late_at = $3, late_phase = $4, late_class = $5, late_reply = $6
WHERE message = $1 AND number = $2 AND fenced_at IS NOT NULL AND late_at IS NULL";

pub const RELAYS: &str = "
SELECT name, revision, failures, failing_since, sent, bounced, cause, why, opened_at, until_at, times, probe_message,
       probe_until
FROM relays";

/// Of a revision that is not the one after the row's, nothing is taken.
pub const PUT_RELAY: &str = "
INSERT INTO relays (name, revision, failures, failing_since, sent, bounced, state, cause, why, opened_at, until_at, times,
                    probe_message, probe_until, changed_at)
VALUES ($1, $2, $3, NULLIF($4, 0), $5, $6, $7, NULLIF($8, ''), NULLIF($9, ''), NULLIF($10, 0), NULLIF($11, 0), $12,
        NULLIF($13, ''), NULLIF($14, 0), $15)
ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, failures = excluded.failures,
    failing_since = excluded.failing_since, sent = excluded.sent, bounced = excluded.bounced, state = excluded.state,
    cause = excluded.cause, why = excluded.why, opened_at = excluded.opened_at, until_at = excluded.until_at,
    times = excluded.times, probe_message = excluded.probe_message, probe_until = excluded.probe_until,
    changed_at = excluded.changed_at
WHERE relays.revision = excluded.revision - 1";

pub const SENT_DIGEST: &str = "UPDATE digests SET sent_at = $2 WHERE digest_id = $1 AND sent_at IS NULL";

pub const SENT_MESSAGE: &str = "UPDATE messages SET sent_at = $2 WHERE id = $1 AND sent_at IS NULL";

/// For one that has no end.
pub const MESSAGE_STATE: &str = "UPDATE messages SET state = $2 WHERE id = $1 AND closed_at IS NULL";

pub const CLOSE_MESSAGE: &str = "
UPDATE messages SET state = $2, why = $3, closed_at = $4,
    sent_at = CASE WHEN $2 = 'sent' THEN COALESCE(sent_at, $4) ELSE sent_at END
WHERE id = $1 AND closed_at IS NULL";

pub const SUPPRESSED: &str =
    "SELECT reason FROM suppressions WHERE tenant = $1 AND address_lower = $2 ORDER BY suppressed_at, reason";

/// `$1` message, `$2` `Message-ID`, `$3` tenant; each may be empty. What no relay was ever given nobody can report of.
pub const REPORTED_MESSAGE: &str = "
SELECT m.id FROM messages m
WHERE (m.id = $1 OR m.message_id = $2) AND (m.tenant = $3 OR $3 = '')
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL) LIMIT 2";

pub const PUT_DELIVERY_EVENT: &str = "
INSERT INTO delivery_events (message, event, tenant, address_lower, kind, bounce, status, diagnostic, relay, event_id,
                             occurred_at, received_at)
VALUES ($1, $2, $3, $4, $5, NULLIF($6, ''), NULLIF($7, ''), $8, NULLIF($9, ''), NULLIF($10, ''), $11, $12)
ON CONFLICT DO NOTHING";

pub const DELIVERY_EVENTS: &str = "
SELECT kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at
FROM delivery_events WHERE message = $1 ORDER BY occurred_at, event";

/// When each message to the address bounced softly that did so since one was delivered there; `$3` limit.
pub const SOFT_BOUNCED: &str = "
SELECT MIN(e.occurred_at) AS first_at FROM delivery_events e
WHERE e.tenant = $1 AND e.address_lower = $2 AND e.bounce = 'soft'
  AND e.occurred_at > COALESCE((SELECT MAX(d.occurred_at) FROM delivery_events d
                                WHERE d.tenant = $1 AND d.address_lower = $2 AND d.kind = 'delivered'), -1)
  AND NOT EXISTS (SELECT 1 FROM delivery_events d WHERE d.message = e.message AND d.kind = 'delivered')
GROUP BY e.message ORDER BY first_at LIMIT $3";

/// When the relay got a message that it did not refuse, as far as anybody knows.
pub const TAKEN_AT: &str = "
SELECT MIN(past_the_dot_at) FROM attempts
WHERE message = $1 AND (class IS NULL OR class IN ('sent', 'ambiguous', 'fenced', 'cancelled'))";

pub const TAKEN_BY: &str = "
SELECT relay FROM attempts WHERE message = $1 AND (class = 'sent' OR late_class = 'sent') ORDER BY number DESC LIMIT 1";

/// Of one that has an end.
pub const REPORT_MESSAGE: &str = "UPDATE messages SET state = $2, why = $3 WHERE id = $1 AND closed_at IS NOT NULL";

macro_rules! message_columns {
    () => {
        "SELECT m.id, m.tenant, m.digest_type, m.user_id, m.idempotency_key, m.content_sha256, m.stream, m.state,
                m.why, m.envelope_to, m.message_id, m.subject, m.created_at, m.sent_at, m.closed_at,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = m.id) AS attempts
         FROM messages m "
    };
}

pub const MESSAGE_RECORD: &str = concat!(message_columns!(), "WHERE m.id = $1");

pub const IS_SINGLE: &str = "SELECT id FROM messages WHERE id = $1 AND digest_id IS NULL";

/// `$1` tenant and `$2` state, or empty for all; `$3` limit.
pub const MESSAGES: &str = concat!(
    message_columns!(),
    "WHERE (m.tenant = $1 OR $1 = '') AND (m.state = $2 OR $2 = '') ORDER BY m.created_at DESC, m.id LIMIT $3"
);

pub const ATTEMPTS: &str = "
SELECT number, relay, begun_at, past_the_dot_at, ended_at, phase, class, reply, late_at, late_phase, late_class, late_reply
FROM attempts WHERE message = $1 ORDER BY number";

/// The same command of the same operator in the same millisecond is the same.
pub const AUDIT_MESSAGE_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, message, acted_at, actor, action, why)
SELECT $1, '', '', $2, $3, $4, $5, $6
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = '' AND user_id = '' AND acted_at = $3
                  AND message = $2 AND actor = $4 AND action = $5 AND why = $6)";

macro_rules! digest_columns {
    () => {
        "SELECT d.digest_id, d.tenant, d.digest_type, d.user_id, d.opened_at, d.due_at, d.state, d.outcome, d.why,
                d.closed_at, (SELECT COUNT(*) FROM events e WHERE e.digest_id = d.digest_id) AS items,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = d.digest_id) AS attempts,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = d.digest_id AND a.class = 'ambiguous') AS ambiguous
         FROM digests d "
    };
}

pub const DIGEST: &str = concat!(digest_columns!(), "WHERE d.digest_id = $1");

pub const DIGESTS: &str = concat!(
    digest_columns!(),
    "WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 ORDER BY d.opened_at DESC, d.digest_id LIMIT $4"
);

/// Closed before `$1`, and perhaps with events. Of those that returned them, all wait or none does.
pub const OLD_DIGESTS: &str = "
SELECT d.digest_id FROM digests d
WHERE d.emptied_at IS NULL AND d.closed_at < $1
  AND (d.returned_at IS NULL
       OR NOT EXISTS (SELECT 1 FROM events e WHERE e.digest_id = d.digest_id AND e.returned_at IS NOT NULL))
ORDER BY d.closed_at, d.digest_id LIMIT $2";

/// `{each}` is a digest's id in a list of its own, here and below. `$2` limit.
pub const EVENTS_OF_DIGESTS: &str = "
SELECT e.tenant, e.digest_type, e.user_id, e.event_id, e.digest_id, e.category, e.entity_type, e.entity_id, e.actor,
       e.occurred_at, CAST(e.counts AS TEXT) AS counts, e.urgent, CAST(e.payload AS TEXT) AS payload, e.recorded_at,
       e.returned_from, d.closed_at
FROM digests d JOIN events e ON e.digest_id = d.digest_id
WHERE e.returned_at IS NULL AND d.digest_id IN (SELECT value->>0 FROM {each})
ORDER BY d.closed_at, d.digest_id, e.event_id LIMIT $2";

pub const COUNT_OLD_EVENTS: &str = "
SELECT COUNT(*) FROM digests d JOIN events e ON e.digest_id = d.digest_id
WHERE d.emptied_at IS NULL AND d.closed_at < $1 AND e.returned_at IS NULL";

/// Retracted before `$1`. One that may cover an event which is still here, in a digest or on the way to one, stays.
macro_rules! old_retracts {
    () => {
        " FROM retracts r
WHERE r.retracted_at < $1
  AND NOT EXISTS (SELECT 1 FROM digests d
                  WHERE d.tenant = r.tenant AND d.digest_type = r.digest_type AND d.user_id = r.user_id
                    AND d.opened_at <= r.retracted_at AND (d.closed_at IS NULL OR d.closed_at >= $1))
  AND NOT EXISTS (SELECT 1 FROM events e
                  WHERE e.tenant = r.tenant AND e.digest_type = r.digest_type AND e.user_id = r.user_id
                    AND e.returned_at IS NOT NULL)"
    };
}

pub const OLD_RETRACTS: &str = concat!(
    "SELECT r.tenant, r.digest_type, r.user_id, r.event_id, r.category, r.entity_type, r.entity_id, r.until_at,
            r.retracted_at",
    old_retracts!(),
    " ORDER BY r.retracted_at, r.tenant, r.digest_type, r.user_id, r.event_id, r.category, r.entity_type, r.entity_id
      LIMIT $2"
);
pub const COUNT_OLD_RETRACTS: &str = concat!("SELECT COUNT(*)", old_retracts!());

pub const OLD_LETTERS: &str = "
SELECT workflow_id, run_id, seq, reason, encoding, size, sha256, head, buried_at
FROM dead_letters WHERE buried_at < $1 ORDER BY buried_at, workflow_id, run_id, seq LIMIT $2";
pub const COUNT_OLD_LETTERS: &str = "SELECT COUNT(*) FROM dead_letters WHERE buried_at < $1";

/// Ended before `$1`, as did their digest.
macro_rules! old_messages {
    () => {
        " FROM messages m
WHERE m.closed_at < $1
  AND NOT EXISTS (SELECT 1 FROM digests d WHERE d.digest_id = m.digest_id AND d.state <> 'closed')"
    };
}

pub const OLD_MESSAGES: &str =
    concat!("SELECT m.id, m.digest_id, m.closed_at", old_messages!(), " ORDER BY m.closed_at, m.id LIMIT $2");
pub const COUNT_OLD_MESSAGES: &str = concat!("SELECT COUNT(*)", old_messages!());
pub const CLOSED_AMONG: &str =
    "SELECT digest_id FROM digests WHERE state = 'closed' AND digest_id IN (SELECT value->>0 FROM {each})";

pub const OLD_REPORTS: &str = "
SELECT message, event, tenant, address_lower, kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at
FROM delivery_events WHERE received_at < $1 ORDER BY received_at, message, event LIMIT $2";
pub const COUNT_OLD_REPORTS: &str = "SELECT COUNT(*) FROM delivery_events WHERE received_at < $1";

pub const DELETE_EVENTS: &str = "
DELETE FROM events WHERE (tenant, digest_type, user_id, event_id) IN
    (SELECT value->>0, value->>1, value->>2, value->>3 FROM {each})";
pub const DELETE_RETRACTS: &str = "
DELETE FROM retracts WHERE (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) IN
    (SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6 FROM {each})";
pub const DELETE_LETTERS: &str = "
DELETE FROM dead_letters WHERE (workflow_id, run_id, seq) IN
    (SELECT value->>0, value->>1, CAST(value->>2 AS BIGINT) FROM {each})";
pub const DELETE_ATTEMPTS: &str = "DELETE FROM attempts WHERE message IN (SELECT value->>0 FROM {each})";
pub const DELETE_REPORTS: &str =
    "DELETE FROM delivery_events WHERE (message, event) IN (SELECT value->>0, value->>1 FROM {each})";
pub const DELETE_MESSAGES: &str = "DELETE FROM messages WHERE id IN (SELECT value->>0 FROM {each})";

pub const MARK_PURGED: &str =
    "UPDATE digests SET purged_at = COALESCE(purged_at, $2) WHERE digest_id IN (SELECT value->>0 FROM {each})";
pub const MARK_EMPTIED: &str = "
UPDATE digests SET emptied_at = $2
WHERE digest_id IN (SELECT value->>0 FROM {each})
  AND NOT EXISTS (SELECT 1 FROM events e WHERE e.digest_id = digests.digest_id)";
/// Answers with a row when something of the digest is gone.
pub const WAS_PURGED: &str = "SELECT purged_at FROM digests WHERE digest_id = $1 AND purged_at IS NOT NULL";
