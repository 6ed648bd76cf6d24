//! The attempt that ends its message, and the digest that the message is of, in one call of the database.

use jiff::Timestamp;
use tidings_model::{
    records::{AttemptEnd, MessageState},
    window::Closed,
};
use uuid::Uuid;

use crate::{
    Result,
    attempts::ended_attempt,
    ending::{ended_digest, ended_message},
    sql::{
        Sql,
        dialect::{Dialect, Variants},
        no_nul,
    },
};

/// `$1` message, `$2` number, `$3` now, `$4` phase, `$5` class, `$6` reply, `$7` the relay's id, `$8` outcome, `$9` why, `$10` state of the
/// message. Answers with a row if the attempt was under way and the message had no end; changes nothing otherwise.
pub const CLOSE_WITH_ATTEMPT: Variants = Variants {
    // `changes()`: the rows that the statement before has written.
    sqlite: concat!(
        "
BEGIN IMMEDIATE;
",
        ended_attempt!(),
        "
WHERE message = $1 AND number = $2 AND class IS NULL AND EXISTS (SELECT 1 FROM messages WHERE id = $1 AND closed_at IS NULL);
",
        ended_message!("$10", "$9", "$3"),
        " WHERE id = $1 AND changes() = 1 RETURNING 1;
",
        ended_digest!("$8", "$9", "$3"),
        " WHERE digest_id = $1 AND state <> 'closed' AND changes() = 1;
COMMIT"
    ),
    // Locks the digest's row first and the message's next, as all writers do. If another writer changed a row before, PostgreSQL
    // compares the changed row.
    postgres: concat!(
        "
WITH digest AS MATERIALIZED (
SELECT digest_id FROM digests WHERE digest_id = $1 FOR UPDATE
), message AS MATERIALIZED (
SELECT m.id FROM messages m LEFT JOIN digest ON TRUE WHERE m.id = $1 AND m.closed_at IS NULL FOR UPDATE OF m
), attempt AS (
",
        ended_attempt!(),
        " FROM message WHERE attempts.message = message.id AND number = $2 AND class IS NULL RETURNING attempts.message AS id
), ended AS (
",
        ended_digest!("$8", "$9", "$3"),
        " FROM attempt WHERE digest_id = attempt.id AND state <> 'closed'
)
",
        ended_message!("$10", "$9", "$3"),
        " FROM attempt WHERE messages.id = attempt.id RETURNING 1"
    ),
};

impl<D: Dialect> Sql<D> {
    /// Ends the message and its digest with an attempt that is under way. `false`: something of it has ended before, and nothing
    /// is written.
    pub(crate) async fn close_with_attempt(
        &self,
        message: Uuid,
        attempt: u32,
        (end, closed): (&AttemptEnd, &Closed),
        now: Timestamp,
    ) -> Result<bool> {
        let close = Self::bind_end(D::pick(CLOSE_WITH_ATTEMPT), message, attempt, end, now)
            .bind(closed.outcome.name().to_owned())
            .bind(no_nul(&closed.why))
            .bind(MessageState::after(closed.outcome).name().to_owned());
        self.write_at_once(close).await
    }
}
