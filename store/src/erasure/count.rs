//! Counts of what an erasure would change.

use std::collections::BTreeSet;

use sqlx::query_as;
use tidings_model::{
    PersonId,
    records::{Erased, Page},
};

use crate::{
    Result,
    erasure::digests_to_erase,
    pseudonym::PREFIX,
    sql::{Sql, dialect::Dialect, json, number},
};

pub const COUNT_RECIPIENTS: &str = "SELECT COUNT(*) FROM recipients WHERE tenant = $1 AND user_id = $2";
pub const COUNT_PREFERENCES: &str = "SELECT COUNT(*) FROM preferences WHERE tenant = $1 AND user_id = $2";
pub const COUNT_CONSENTS: &str = "SELECT COUNT(*) FROM consents WHERE tenant = $1 AND user_id = $2";
pub const COUNT_READINGS: &str = "SELECT COUNT(*) FROM readings WHERE tenant = $1 AND user_id = $2";
pub const COUNT_SUPPRESSIONS: &str = "SELECT COUNT(*) FROM suppressions WHERE tenant = $1 AND address_lower = $2";
pub const COUNT_DIGESTS: &str = concat!("SELECT COUNT(*)", digests_to_erase!());
pub const COUNT_EVENTS: &str = "
SELECT COUNT(*) FROM events WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND erased_at IS NULL";
pub const COUNT_RETRACTS: &str =
    "SELECT COUNT(*) FROM retracts WHERE tenant = $1 AND digest_type = $2 AND user_id = $3";
pub const COUNT_MESSAGES: &str = "
SELECT COUNT(*) FROM digests d JOIN messages m ON m.id = d.digest_id
WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 AND m.erased_at IS NULL";
pub const COUNT_REPORTS: &str = "
SELECT COUNT(*) FROM digests d JOIN delivery_events e ON e.message = d.digest_id
WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 AND (e.diagnostic <> '' OR e.url IS NOT NULL
     OR e.address_lower NOT LIKE 'erased:%')";
pub const COUNT_DEAD_LETTERS: &str = "SELECT COUNT(*) FROM dead_letters WHERE workflow_id = $1";
pub const COUNT_INBOX: &str = "SELECT COUNT(*) FROM inbox WHERE tenant = $1 AND user_id = $2";
pub const COUNT_WEBHOOK_LETTERS: &str = "
SELECT COUNT(*) FROM webhook_dead_letters WHERE (relay, sha256) IN
    (SELECT l.relay, l.sha256 FROM webhook_letter_ids l JOIN messages m ON m.id = l.id
     WHERE m.tenant = $1 AND m.user_id = $2)";
pub const COUNT_SINGLE: &str =
    "SELECT COUNT(*) FROM messages WHERE erased_at IS NULL AND id IN (SELECT value->>0 FROM {each})";
pub const COUNT_REPORTS_AMONG: &str = "
SELECT COUNT(*) FROM delivery_events
WHERE (diagnostic <> '' OR url IS NOT NULL OR address_lower NOT LIKE 'erased:%') AND message IN (SELECT value->>0 FROM {each})";

/// Single messages that are looked at together.
const PAGE: u32 = 500;

impl<D: Dialect> Sql<D> {
    pub(super) async fn count_erasable(
        connection: &mut D::Connection,
        person: &PersonId,
        types: &BTreeSet<String>,
        addresses: &BTreeSet<String>,
    ) -> Result<Erased> {
        let who = || vec![person.tenant.clone(), person.user.clone()];
        let mut erased = Erased {
            recipients: Self::counted(&mut *connection, COUNT_RECIPIENTS, who()).await?,
            preferences: Self::counted(&mut *connection, COUNT_PREFERENCES, who()).await?,
            consents: Self::counted(&mut *connection, COUNT_CONSENTS, who()).await?,
            delivery_events: Self::counted(&mut *connection, COUNT_READINGS, who()).await?,
            dead_letters: Self::counted(&mut *connection, COUNT_WEBHOOK_LETTERS, who()).await?,
            inbox: Self::counted(&mut *connection, COUNT_INBOX, who()).await?,
            ..Erased::default()
        };
        for address in addresses.iter().filter(|address| !address.starts_with(PREFIX)) {
            let args = vec![person.tenant.clone(), address.clone()];
            erased.suppressions += Self::counted(&mut *connection, COUNT_SUPPRESSIONS, args).await?;
        }
        for digest_type in types {
            erased += Self::count_type(&mut *connection, person, digest_type).await?;
        }
        erased += Self::count_single_messages(connection, person, addresses).await?;
        Ok(erased)
    }

    async fn count_type(connection: &mut D::Connection, person: &PersonId, digest_type: &str) -> Result<Erased> {
        let key = person.key(digest_type);
        let args = || vec![key.tenant.clone(), key.digest_type.clone(), key.user.clone()];
        Ok(Erased {
            digests: Self::counted(&mut *connection, COUNT_DIGESTS, args()).await?,
            events: Self::counted(&mut *connection, COUNT_EVENTS, args()).await?,
            retracts: Self::counted(&mut *connection, COUNT_RETRACTS, args()).await?,
            messages: Self::counted(&mut *connection, COUNT_MESSAGES, args()).await?,
            delivery_events: Self::counted(&mut *connection, COUNT_REPORTS, args()).await?,
            dead_letters: Self::counted(connection, COUNT_DEAD_LETTERS, vec![key.workflow_id()]).await?,
            ..Erased::default()
        })
    }

    async fn count_single_messages(
        connection: &mut D::Connection,
        person: &PersonId,
        addresses: &BTreeSet<String>,
    ) -> Result<Erased> {
        let mut erased = Erased::default();
        let mut page = Page { limit: PAGE, after: None };
        loop {
            let found = Self::messages_about(&mut *connection, &person.key(""), addresses, &page).await?;
            let ids = json(&found.rows)?;
            for (statement, count) in
                [(COUNT_SINGLE, &mut erased.messages), (COUNT_REPORTS_AMONG, &mut erased.delivery_events)]
            {
                let counted = query_as(Self::each(statement)).bind(ids.clone()).fetch_one(&mut *connection);
                let (rows,): (i64,) = counted.await?;
                *count += number::<u64>(rows)?;
            }
            match found.next {
                None => return Ok(erased),
                after => page.after = after,
            }
        }
    }

    async fn counted(connection: &mut D::Connection, statement: &'static str, args: Vec<String>) -> Result<u64> {
        let query = args.into_iter().fold(query_as(statement), |query, arg| query.bind(arg));
        let (rows,): (i64,) = query.fetch_one(connection).await?;
        number(rows)
    }
}
