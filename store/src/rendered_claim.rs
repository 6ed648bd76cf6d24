//! A fresh window becomes a digest with its events and its message, in one call of the database.

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    Key,
    records::RenderedClaim,
    window::{Planned, Window},
};

use crate::{
    Result,
    claims::needs_ledger,
    events::{EventRow, event_columns, event_values},
    sql::{
        Sql,
        dialect::{Dialect, Variants},
        json, no_nul,
    },
};

/// Key `$1` to `$3`, `$4` digest, `$5` opened, `$6` due, `$7` words of the plan, `$8` cadence, `$9` zone, `$10` now, `$22` slot, 0 for none.
macro_rules! insert_digest {
    () => {
        concat!(
            "INSERT INTO digests (tenant, digest_type, user_id, digest_id, opened_at, due_at, state, plan_why, cadence, zone, claimed_at, slot_at)
SELECT $1, $2, $3, $4, $5, $6, 'rendered', NULLIF($7, ''), NULLIF($8, ''), NULLIF($9, ''), $10, NULLIF($22, 0)
WHERE NOT ",
            needs_ledger!(),
            "
ON CONFLICT DO NOTHING"
        )
    };
}

/// `$12` stream, `$13` envelope from, `$14` envelope to, `$15` message id, `$16` subject, `$17` bytes, `$18` template, `$19` created,
/// `$20` counted, `$21` hash of what it is made from, `$23` thread or empty.
macro_rules! insert_message {
    () => {
        "INSERT INTO messages (tenant, digest_type, user_id, id, digest_id, stream, envelope_from, envelope_to, message_id,
                      subject, bytes, template, created_at, counted, made_from, thread, thread_at, state, may_repeat, shrunk)
SELECT $1, $2, $3, $4, $4, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, NULLIF($23, ''), CASE WHEN $23 <> '' THEN $5 END,
       'queued', 0, 0"
    };
}

/// The parameters of the statements above, and `$11` JSON array of events. Answers with a row if the digest is new and the key needs
/// nothing else of the ledger; fails with a unique violation if that has one of the events.
pub const CLAIM_RENDERED: Variants = Variants {
    // `changes()`: the rows that the statement before has written.
    sqlite: concat!(
        "
BEGIN IMMEDIATE;
",
        insert_digest!(),
        ";
",
        insert_message!(),
        " WHERE changes() = 1 RETURNING 1;
INSERT INTO events (",
        event_columns!(),
        ")
SELECT $1, $2, $3, $4, $10, ",
        event_values!(sqlite),
        "
FROM jsonb_each($11) e WHERE changes() = 1;
COMMIT"
    ),
    postgres: concat!(
        "
WITH digest AS (
",
        insert_digest!(),
        " RETURNING digest_id
), recorded AS (
INSERT INTO events (",
        event_columns!(),
        ")
SELECT $1, $2, $3, $4, $10, ",
        event_values!(postgres),
        "
FROM digest CROSS JOIN jsonb_array_elements($11::jsonb) e
)
",
        insert_message!(),
        " FROM digest RETURNING 1"
    ),
};

impl<D: Dialect> Sql<D> {
    pub(crate) async fn claim_rendered(&self, claim: RenderedClaim<'_>) -> Result<bool> {
        let RenderedClaim { window, events, planned, message, slot_at, now } = claim;
        let Window { key: Key { tenant, digest_type, user }, digest_id, opened_at, due_at } = window;
        let Planned { why, cadence, zone } = planned.cloned().unwrap_or_default();
        let events: Vec<_> = events.iter().map(EventRow::new).collect::<Result<_>>()?;
        let claim = query(D::pick(CLAIM_RENDERED))
            .bind(tenant)
            .bind(digest_type)
            .bind(user)
            .bind(digest_id.to_string())
            .bind(opened_at.as_millisecond())
            .bind(due_at.as_millisecond())
            .bind(no_nul(&why))
            .bind(cadence)
            .bind(zone)
            .bind(now.as_millisecond())
            .bind(json(&events)?)
            .bind(message.stream.name().to_owned())
            .bind(&message.envelope_from)
            .bind(&message.envelope_to)
            .bind(&message.message_id)
            .bind(no_nul(&message.subject))
            .bind(&message.bytes)
            .bind(&message.template)
            .bind(message.made_at.as_millisecond())
            .bind(message.counted)
            .bind(&message.made_from)
            .bind(slot_at.map_or(0, Timestamp::as_millisecond))
            .bind(message.thread.map(|thread| thread.to_string()).unwrap_or_default());
        self.write_at_once(claim).await
    }
}
