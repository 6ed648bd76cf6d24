//! Recipients, their preferences and their consent.

use super::columns::{Json, row};
use super::dialect::{Dialect, Variants};
use super::{Sql, json, number, within_timeout};
use crate::{Directory, Result, pseudonym::Pseudonyms};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as};
use std::collections::BTreeMap;
use tidings_model::delivery_events::{GRANT, WITHDRAW};
use tidings_model::limits::BATCH_EVENTS;
use tidings_model::pause::Paused;
use tidings_model::records::{
    Actor, AuditEntry, Facts, PersonId, Preferences, PreferencesPut, Reading, Reason, Recipient, SentSchedule, Wish,
};
use tidings_model::{EmailAddress, Key};
use tracing::instrument;

/// `$1` JSON array of recipients, `$2` now.
pub const PUT_RECIPIENTS: Variants = Variants {
    sqlite: "
INSERT INTO recipients (tenant, user_id, address, address_lower, pseudonym, name, zone, locale, zone_revision, zone_changed_at)
SELECT value->>'tenant', value->>'user', value->>'address', value->>'address_lower', value->>'pseudonym', value->>'name',
       value->>'zone', value->>'locale', CASE WHEN value->>'zone' = '' THEN 0 ELSE 1 END, NULL
FROM jsonb_each($1) WHERE TRUE
ON CONFLICT (tenant, user_id) DO UPDATE SET address = excluded.address, address_lower = excluded.address_lower,
    pseudonym = excluded.pseudonym, name = excluded.name, zone = excluded.zone, locale = excluded.locale,
    zone_revision = recipients.zone_revision + CASE WHEN recipients.zone = excluded.zone THEN 0 ELSE 1 END,
    zone_changed_at = CASE WHEN recipients.zone = excluded.zone THEN recipients.zone_changed_at ELSE $2 END
RETURNING tenant, user_id, zone_changed_at",
    postgres: "
INSERT INTO recipients (tenant, user_id, address, address_lower, pseudonym, name, zone, locale, zone_revision, zone_changed_at)
SELECT value->>'tenant', value->>'user', value->>'address', value->>'address_lower', value->>'pseudonym', value->>'name',
       value->>'zone', value->>'locale', CASE WHEN value->>'zone' = '' THEN 0 ELSE 1 END, NULL
FROM jsonb_array_elements($1::jsonb)
ON CONFLICT (tenant, user_id) DO UPDATE SET address = excluded.address, address_lower = excluded.address_lower,
    pseudonym = excluded.pseudonym, name = excluded.name, zone = excluded.zone, locale = excluded.locale,
    zone_revision = recipients.zone_revision + CASE WHEN recipients.zone = excluded.zone THEN 0 ELSE 1 END,
    zone_changed_at = CASE WHEN recipients.zone = excluded.zone THEN recipients.zone_changed_at ELSE $2::bigint END
RETURNING tenant, user_id, zone_changed_at",
};

/// Tenant, digest type, user, `$4` JSON, `$5` now, `$6` the row's revision, 0 for no row, -1 for any. Changes a row of that
/// revision unless it has the same preferences.
pub const PUT_PREFERENCES: Variants = Variants {
    sqlite: "
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
SELECT $1, $2, $3, $4, 1, $5
WHERE $6 < 1 OR EXISTS (SELECT 1 FROM preferences WHERE tenant = $1 AND digest_type = $2 AND user_id = $3)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET chosen = excluded.chosen,
    revision = preferences.revision + 1, changed_at = excluded.changed_at
    WHERE preferences.chosen <> excluded.chosen AND ($6 < 0 OR preferences.revision = $6)",
    postgres: "
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
SELECT $1, $2, $3, $4::jsonb, 1, $5::bigint
WHERE $6::bigint < 1 OR EXISTS (SELECT 1 FROM preferences WHERE tenant = $1 AND digest_type = $2 AND user_id = $3)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET chosen = excluded.chosen,
    revision = preferences.revision + 1, changed_at = excluded.changed_at
    WHERE preferences.chosen <> excluded.chosen AND ($6 < 0 OR preferences.revision = $6)",
};

/// Tenant, user. Keeps the recipient's row for the transaction.
pub const ZONE_REVISION: Variants = Variants {
    sqlite: "SELECT zone_revision FROM recipients WHERE tenant = $1 AND user_id = $2",
    postgres: "SELECT zone_revision FROM recipients WHERE tenant = $1 AND user_id = $2 FOR UPDATE",
};

/// `$6`: the latest change that this one may follow.
pub const PUT_CONSENT: &str = "
INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET consent = excluded.consent, changed_at = excluded.changed_at
WHERE consents.consent <> excluded.consent AND consents.changed_at <= $6";

/// A repeated consent counts as the latest wish: older reports of an unsubscription do not override it.
pub const GRANTED_AGAIN: &str = "
UPDATE consents SET changed_at = $4
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND consent AND changed_at < $4";

/// The facts about the key `$1`, `$2`, `$3`, with more columns and tables if asked. Unread digests are counted ones that a relay
/// accepted since the last opening or click.
macro_rules! facts {
    ($columns:expr, $tables:expr) => {
        concat!(
            "
SELECT r.address, r.name, r.zone, r.locale, r.zone_revision, r.zone_changed_at, r.answered_at, CAST(p.chosen AS TEXT) AS chosen, p.revision,
       p.changed_at, c.consent,
       (SELECT s.reason FROM suppressions s WHERE s.tenant = $1 AND s.address_lower IN (r.address_lower, r.pseudonym)
        ORDER BY s.suppressed_at, s.reason LIMIT 1) AS suppressed,
       l.sent_at AS last_sent_at, COALESCE(l.slot_at, l.sent_at) AS last_slot_at, l.due_at AS scheduled_at, l.cadence AS last_cadence,
       l.zone AS last_zone,
       o.paused_by, o.why AS paused_why, o.paused_at, o.until_at AS paused_until, g.read_at,
       (SELECT d.sent_at FROM digests d JOIN messages n ON n.id = d.digest_id AND n.counted
        WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 AND d.sent_at > g.sign_at
        ORDER BY d.sent_at LIMIT 1) AS unread_since,
       (SELECT d.sent_at FROM digests d JOIN messages n ON n.id = d.digest_id AND n.counted
        WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 AND d.sent_at > g.sign_at
        ORDER BY d.sent_at LIMIT 1 OFFSET 4) AS fifth_unread_at",
            $columns,
            "
FROM (SELECT 1 AS one) always
LEFT JOIN recipients r ON r.tenant = $1 AND r.user_id = $3
LEFT JOIN preferences p ON p.tenant = $1 AND p.digest_type = $2 AND p.user_id = $3
LEFT JOIN consents c ON c.tenant = $1 AND c.digest_type = $2 AND c.user_id = $3
LEFT JOIN readings g ON g.tenant = $1 AND g.digest_type = $2 AND g.user_id = $3
LEFT JOIN digests l ON l.digest_id = (
    SELECT digest_id FROM digests WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND sent_at IS NOT NULL
    ORDER BY sent_at DESC LIMIT 1)
LEFT JOIN pauses o ON o.pause_id = (
    SELECT pause_id FROM pauses WHERE ended_at IS NULL AND tenant IN ('', $1) AND digest_type IN ('', $2)
    ORDER BY COALESCE(until_at, 9223372036854775807) DESC, paused_at, pause_id LIMIT 1)",
            $tables
        )
    };
}
pub(super) use facts;

pub const FACTS: &str = facts!("", "");

#[async_trait]
impl<D: Dialect> Directory for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(count = recipients.len()), err(level = "debug"))]
    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<Vec<PersonId>> {
        within_timeout(async {
            let pseudonyms = self.secret().await?;
            let mut tx = self.write().await?;
            let moved = Self::put_rows(&mut tx, recipients, &pseudonyms, now).await?;
            tx.commit().await?;
            Ok(moved)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(person = %person), err(level = "debug"))]
    async fn keep_answer(&self, person: &PersonId, recipient: Option<&Recipient>, now: Timestamp) -> Result<()> {
        within_timeout(self.keep(person, recipient, now)).await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn put_preferences(
        &self,
        key: &Key,
        preferences: &Preferences,
        expected: Option<u64>,
        entry: &AuditEntry,
    ) -> Result<PreferencesPut> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let changed = match Self::expected_row(&mut tx, key, expected).await? {
                Some(row) => Self::write_preferences(&mut tx, key, preferences, row, entry).await?,
                None => false,
            };
            let current = Self::facts_of(&mut tx, key).await?;
            tx.commit().await?;
            Ok(if current.preferences == *preferences {
                PreferencesPut::Stored { revision: current.revision, changed }
            } else {
                PreferencesPut::Conflict { current: Box::new(current) }
            })
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(count = wishes.len()), err(level = "debug"))]
    async fn put_wishes(&self, wishes: &[Wish], now: Timestamp, why: &str) -> Result<Option<Vec<Key>>> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let mut changed = Vec::new();
            for wish in wishes {
                match Self::make_true(&mut tx, wish, now, why).await? {
                    Some(true) => changed.push(wish.key.clone()),
                    Some(false) => {}
                    // The transaction ends without a commit.
                    None => return Ok(None),
                }
            }
            tx.commit().await?;
            Ok(Some(changed))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()> {
        within_timeout(async {
            let mut tx = self.write().await?;
            Self::change_consent(&mut tx, key, consent, Timestamp::MAX, entry).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn facts(&self, key: &Key) -> Result<Facts> {
        within_timeout(async {
            let mut connection = self.reader.acquire().await?;
            let facts = Self::facts_of(&mut connection, key).await?;
            connection.release();
            Ok(facts)
        })
        .await
    }
}

impl<D: Dialect> Sql<D> {
    /// Adds or replaces rows, and returns the people whose zone changed, except for new ones.
    pub(super) async fn put_rows(
        connection: &mut D::Connection,
        recipients: &[Recipient],
        pseudonyms: &Pseudonyms,
        now: Timestamp,
    ) -> Result<Vec<PersonId>> {
        // One statement cannot replace a row twice: of one person's entries the last counts.
        let last: BTreeMap<_, _> = recipients.iter().map(|r| ((&r.tenant, &r.user), r)).collect();
        let rows: Vec<_> = last.into_values().map(|recipient| row(recipient, pseudonyms)).collect();
        let mut moved = Vec::new();
        for page in rows.chunks(BATCH_EVENTS) {
            let put = query_as(D::pick(PUT_RECIPIENTS)).bind(json(&page)?).bind(now.as_millisecond());
            let put: Vec<PutRow> = put.fetch_all(&mut *connection).await?;
            let now = Some(now.as_millisecond());
            let changed = put.into_iter().filter(|row| row.zone_changed_at.map(Timestamp::as_millisecond) == now);
            moved.extend(changed.map(|row| PersonId { tenant: row.tenant, user: row.user_id }));
        }
        Ok(moved)
    }

    async fn facts_of(connection: &mut D::Connection, key: &Key) -> Result<Facts> {
        let statement = query_as(FACTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let row: FactsRow = statement.fetch_one(connection).await?;
        Ok(row.facts(key))
    }

    /// The `$6` of [`PUT_PREFERENCES`] for an expected [`Facts::revision`]. `None`: the directory alone is past that revision.
    async fn expected_row(connection: &mut D::Connection, key: &Key, expected: Option<u64>) -> Result<Option<i64>> {
        let Some(expected) = expected else { return Ok(Some(-1)) };
        let zone = query_as(D::pick(ZONE_REVISION)).bind(&key.tenant).bind(&key.user);
        let zone: Option<(i64,)> = zone.fetch_optional(connection).await?;
        let zone = zone.map_or(Ok(0), |(zone,)| number(zone))?;
        Ok(expected.checked_sub(zone).and_then(|row| i64::try_from(row).ok()))
    }

    /// Reports if it changed the row.
    async fn write_preferences(
        connection: &mut D::Connection,
        key: &Key,
        preferences: &Preferences,
        row: i64,
        entry: &AuditEntry,
    ) -> Result<bool> {
        let put = query(D::pick(PUT_PREFERENCES)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let put = put.bind(json(preferences)?).bind(entry.at.as_millisecond()).bind(row);
        let changed = D::rows(&put.execute(&mut *connection).await?) > 0;
        if changed {
            Self::audit_change(connection, key, None, entry).await?;
        }
        Ok(changed)
    }

    /// Reports if the wish changed something; `None`: the recipient saw other facts.
    async fn make_true(connection: &mut D::Connection, wish: &Wish, now: Timestamp, why: &str) -> Result<Option<bool>> {
        let Wish { key, seen_revision, seen_consent, preferences, consent } = wish;
        let entry = |action: &str| AuditEntry {
            at: now,
            actor: Actor::Recipient,
            action: action.to_owned(),
            why: why.to_owned(),
        };
        let row = Self::expected_row(connection, key, Some(*seen_revision)).await?;
        let seen = Self::facts_of(connection, key).await?;
        if (&seen.preferences, seen.consent) == (preferences, *consent) {
            return Ok(Some(false));
        }
        if (seen.revision, seen.consent) != (*seen_revision, *seen_consent) {
            return Ok(None);
        }
        let Some(row) = row else { return Ok(None) };
        let chooses = seen.preferences != *preferences;
        if chooses && !Self::write_preferences(connection, key, preferences, row, &entry("preferences")).await? {
            return Ok(None);
        }
        if consent != seen_consent {
            let action = if *consent { GRANT } else { WITHDRAW };
            Self::change_consent(connection, key, *consent, Timestamp::MAX, &entry(action)).await?;
        }
        Ok(Some(chooses || consent != seen_consent))
    }

    /// Unless it changed after `since`.
    pub(super) async fn change_consent(
        connection: &mut D::Connection,
        key: &Key,
        consent: bool,
        since: Timestamp,
        entry: &AuditEntry,
    ) -> Result<()> {
        let statement = query(PUT_CONSENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let statement = statement.bind(consent).bind(entry.at.as_millisecond()).bind(since.as_millisecond());
        if D::rows(&statement.execute(&mut *connection).await?) > 0 {
            Self::audit_change(connection, key, None, entry).await?;
        } else if consent {
            let again = query(GRANTED_AGAIN).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            again.bind(entry.at.as_millisecond()).execute(connection).await?;
        }
        Ok(())
    }
}

/// A recipient as the statements take it.
#[derive(Serialize)]
pub struct RecipientRow<'a> {
    #[serde(flatten)]
    pub recipient: &'a Recipient,
    pub address_lower: String,
    pub pseudonym: String,
}

fn row<'a>(recipient: &'a Recipient, pseudonyms: &Pseudonyms) -> RecipientRow<'a> {
    let address_lower = EmailAddress::folded(&recipient.address);
    RecipientRow { recipient, pseudonym: pseudonyms.of(&recipient.tenant, &address_lower), address_lower }
}

row! {
/// Columns of [`PUT_RECIPIENTS`].
pub struct PutRow {
    tenant: String,
    user_id: String,
    zone_changed_at: Option<Timestamp>,
}
}

row! {
/// Columns of [`FACTS`](super::FACTS).
pub struct FactsRow {
    address: Option<String>,
    name: Option<String>,
    zone: Option<String>,
    locale: Option<String>,
    zone_revision: Option<u64>,
    zone_changed_at: Option<Timestamp>,
    answered_at: Option<Timestamp>,
    chosen: Option<Json<Preferences>>,
    revision: Option<u64>,
    changed_at: Option<Timestamp>,
    consent: Option<bool>,
    suppressed: Option<Reason>,
    last_sent_at: Option<Timestamp>,
    last_slot_at: Option<Timestamp>,
    scheduled_at: Option<Timestamp>,
    last_cadence: Option<String>,
    last_zone: Option<String>,
    paused_by: Option<String>,
    paused_why: Option<String>,
    paused_at: Option<Timestamp>,
    paused_until: Option<Timestamp>,
    read_at: Option<Timestamp>,
    unread_since: Option<Timestamp>,
    fifth_unread_at: Option<Timestamp>,
}
}

impl FactsRow {
    pub(super) fn facts(self, key: &Key) -> Facts {
        let recipient = self.address.map(|address| Recipient {
            tenant: key.tenant.clone(),
            user: key.user.clone(),
            address,
            name: self.name.unwrap_or_default(),
            zone: self.zone.unwrap_or_default(),
            locale: self.locale.unwrap_or_default(),
        });
        let due_or_sent = self.scheduled_at.zip(self.last_sent_at).map(|(due_at, sent_at)| due_at.min(sent_at));
        let schedule = self.last_cadence.zip(self.last_zone).filter(|(cadence, _)| !cadence.is_empty());
        let last_schedule = due_or_sent.zip(schedule).map(|(at, (cadence, zone))| SentSchedule { at, cadence, zone });
        Facts {
            recipient,
            preferences: self.chosen.map(|Json(chosen)| chosen).unwrap_or_default(),
            // Each part only grows, and so does the sum.
            revision: self.revision.unwrap_or_default().saturating_add(self.zone_revision.unwrap_or_default()),
            changed_at: self.changed_at.max(self.zone_changed_at),
            consent: self.consent.unwrap_or(true),
            suppressed: self.suppressed,
            last_sent_at: self.last_sent_at,
            last_slot_at: self.last_slot_at,
            last_schedule,
            reading: Reading {
                read_at: self.read_at,
                unread_since: self.unread_since,
                fifth_unread_at: self.fifth_unread_at,
            },
            pause: self.paused_by.zip(self.paused_at).map(|(by, since)| Paused {
                by,
                why: self.paused_why.unwrap_or_default(),
                since,
                until: self.paused_until,
            }),
            answered_at: self.answered_at,
            missing: None,
        }
    }
}
