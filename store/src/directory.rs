//! Recipients, their preferences and their consent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as, query_scalar};
use tidings_model::{
    EmailAddress, Key, PersonId, StoredWait,
    delivery_events::{GRANT, WITHDRAW},
    limits::BATCH_EVENTS,
    pause::PauseDetails,
    records::{
        AuditActor, AuditEntry, EngagementTimes, KeyFacts, Preferences, PreferencesChange, PreferencesPut, Recipient,
        RecipientChange, SentSchedule, SuppressionReason,
    },
};

use crate::{
    Result,
    names::{names, of_name, tenants},
    pseudonym::Pseudonyms,
    sql::{
        SqlStore, calls, checked_number,
        columns::{JsonColumn, row},
        dialect::{Dialect, StatementVariants},
        no_nul, to_json,
    },
};

calls! {
    pub trait DirectoryStore {
        async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<Vec<PersonId>>;

        /// Adds or changes recipients; missing fields keep their values, and a recipient's last entry counts.
        /// A new zone raises [`KeyFacts::revision`]. Returns the people with a changed zone, without new
        /// ones.
        #[span(count = changes.len())]
        async fn change_recipients(&self, changes: &[RecipientChange], now: Timestamp) -> Result<Vec<PersonId>>;

        #[span(tenant)]
        async fn count_recipients(&self, tenant: &str) -> Result<u64>;

        /// Stores a reply from the team's own directory: the recipient, or `None` if it has no such person
        /// (an imported row stays). A repeated call only changes [`KeyFacts::answered_at`].
        #[span(person = %person)]
        async fn keep_answer(&self, person: &PersonId, recipient: Option<&Recipient>, now: Timestamp) -> Result<()>;

        /// Replaces a key's preferences if [`KeyFacts::revision`] equals `expected` (or if that is `None`). A
        /// change raises the revision by one and is audited. Storing the same preferences never conflicts, so
        /// this is safe to repeat.
        #[span(key = %key)]
        async fn put_preferences(
            &self,
            key: &Key,
            preferences: &Preferences,
            expected: Option<u64>,
            entry: &AuditEntry,
        ) -> Result<PreferencesPut>;

        /// Applies and audits all changes in one transaction. Returns the keys with changed preferences or
        /// consent, or `None` (writing nothing) if a key changed since the recipient saw it. A change already
        /// in effect never conflicts, so this is safe to repeat.
        #[span(count = wishes.len())]
        async fn put_wishes(&self, wishes: &[PreferencesChange], now: Timestamp, why: &str) -> Result<Option<Vec<Key>>>;

        #[span(key = %key)]
        async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()>;

        #[span(key = %key)]
        async fn facts(&self, key: &Key) -> Result<KeyFacts>;
    }
}

pub const COUNT_RECIPIENTS: &str =
    concat!("SELECT COUNT(DISTINCT r.user_id) FROM ", tenants!(), " t JOIN recipients r ON r.tenant = t.tenant");

macro_rules! put_recipients {
    ($each:literal, $now:literal) => {
        concat!(
            "
INSERT INTO recipients (tenant, user_id, address, address_lower, pseudonym, name, zone, locale, zone_revision, zone_changed_at)
SELECT value->>'tenant', value->>'user', value->>'address', value->>'address_lower', value->>'pseudonym',
       COALESCE(value->>'name', r.name, ''), COALESCE(value->>'zone', r.zone, ''), COALESCE(value->>'locale', r.locale, ''),
       CASE WHEN COALESCE(value->>'zone', '') = '' THEN 0 ELSE 1 END, NULL
FROM ",
            $each,
            " LEFT JOIN recipients r ON r.user_id = value->>'user' AND r.tenant = (
    SELECT q.tenant
    FROM (SELECT value->>'tenant' AS tenant, 0 AS place
          UNION ALL SELECT alias, CASE WHEN is_today THEN 1 ELSE 2 END FROM aliases
          WHERE kind = 'tenant' AND name = value->>'tenant') t
    CROSS JOIN recipients q WHERE q.tenant = t.tenant AND q.user_id = value->>'user' ORDER BY t.place LIMIT 1)
WHERE TRUE
ON CONFLICT (tenant, user_id) DO UPDATE SET address = excluded.address, address_lower = excluded.address_lower,
    pseudonym = excluded.pseudonym, name = excluded.name, zone = excluded.zone, locale = excluded.locale,
    zone_revision = recipients.zone_revision + CASE WHEN recipients.zone = excluded.zone THEN 0 ELSE 1 END,
    zone_changed_at = CASE WHEN recipients.zone = excluded.zone THEN recipients.zone_changed_at ELSE ",
            $now,
            " END
RETURNING tenant, user_id, zone_changed_at"
        )
    };
}

/// `$1` JSON array of recipients, `$2` now. A missing field keeps its value, or else takes it from the
/// person's row under another name of the tenant.
pub const PUT_RECIPIENTS: StatementVariants = StatementVariants {
    sqlite: put_recipients!("jsonb_each($1)", "$2"),
    postgres: put_recipients!("jsonb_array_elements($1::jsonb)", "$2::bigint"),
};

macro_rules! put_preferences {
    ($chosen:literal) => {
        concat!(
            "WITH",
            names!(),
            "
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
SELECT $1, $2, $3, ",
            $chosen,
            ", 1, ",
            latest_of!("preferences"),
            "
WHERE COALESCE((SELECT q.chosen FROM names k CROSS JOIN preferences q WHERE ",
            of_name!("q", "$3"),
            " ORDER BY q.changed_at DESC, k.place LIMIT 1) <> ",
            $chosen,
            ", TRUE)
  AND (CAST($6 AS BIGINT) < 0 OR $6 = (SELECT COALESCE(SUM(q.revision), 0) FROM names k CROSS JOIN preferences q WHERE ",
            of_name!("q", "$3"),
            "))
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET chosen = excluded.chosen,
    revision = preferences.revision + 1, changed_at = excluded.changed_at
    WHERE (preferences.chosen <> excluded.chosen OR ",
            has_other_names!(),
            ") AND ($6 < 0 OR preferences.revision =
        (SELECT q.revision FROM preferences q WHERE q.tenant = $1 AND q.digest_type = $2 AND q.user_id = $3))"
        )
    };
}

/// The time `$5`, or just after the key's latest row under another name, so the last change counts, whatever
/// the clocks show.
macro_rules! latest_of {
    ($table:literal) => {
        concat!(
            "(SELECT MAX(at) FROM (SELECT CAST($5 AS BIGINT) AS at UNION ALL SELECT q.changed_at + 1 FROM names k CROSS JOIN ",
            $table,
            " q WHERE ",
            of_name!("q", "$3"),
            " AND (k.tenant <> $1 OR k.digest_type <> $2)) latest)"
        )
    };
}

macro_rules! has_other_names {
    () => {
        "EXISTS (SELECT 1 FROM names k WHERE k.tenant <> $1 OR k.digest_type <> $2)"
    };
}

/// `$6` is the sum of the revisions over the key's rows, -1 for any. Changes nothing if the same preferences
/// are in effect.
pub const PUT_PREFERENCES: StatementVariants =
    StatementVariants { sqlite: put_preferences!("$4"), postgres: put_preferences!("CAST($4 AS JSONB)") };

macro_rules! zone_revisions {
    ($lock:literal) => {
        concat!(
            "SELECT zone_revision FROM recipients WHERE user_id = $2 AND tenant IN (SELECT tenant FROM ",
            tenants!(),
            " t)",
            $lock
        )
    };
}

pub const ZONE_REVISIONS: StatementVariants =
    StatementVariants { sqlite: zone_revisions!(""), postgres: zone_revisions!(" ORDER BY tenant FOR UPDATE") };

/// Only replaces a change made until `$6`, or one after `$7`, which a clock running ahead dated, so it counts
/// as earlier. Changes nothing if the same consent is in effect.
pub const PUT_CONSENT: &str = concat!(
    "WITH",
    names!(),
    "
INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at)
SELECT $1, $2, $3, CAST($4 AS BOOLEAN), ",
    latest_of!("consents"),
    "
WHERE COALESCE((SELECT q.consent FROM names k CROSS JOIN consents q WHERE ",
    of_name!("q", "$3"),
    " ORDER BY q.changed_at DESC, q.consent LIMIT 1) <> CAST($4 AS BOOLEAN), TRUE)
  AND NOT EXISTS (SELECT 1 FROM names k CROSS JOIN consents q WHERE ",
    of_name!("q", "$3"),
    " AND q.changed_at > CAST($6 AS BIGINT) AND q.changed_at <= CAST($7 AS BIGINT))
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET consent = excluded.consent, changed_at = excluded.changed_at
WHERE (consents.consent <> excluded.consent OR ",
    has_other_names!(),
    ") AND (consents.changed_at <= $6 OR consents.changed_at > $7)"
);

/// Repeated consent counts as the latest choice, so an older unsubscribe report will not override it.
pub const GRANTED_AGAIN: &str = concat!(
    "WITH",
    names!(),
    "
UPDATE consents SET changed_at = $4
WHERE (tenant, digest_type) IN (SELECT tenant, digest_type FROM names) AND user_id = $3 AND consent AND changed_at < $4"
);

/// When the first unread digest (or the one at an offset) was sent, under each name `k` of the key. An index
/// serves one name at a time.
macro_rules! unread {
    ($offset:literal) => {
        concat!(
            "(SELECT MIN(at) FROM (SELECT (
            SELECT d.sent_at FROM digests d JOIN messages n ON n.id = d.digest_id AND n.counted
            WHERE ",
            $crate::names::of_name!("d", "$3"),
            " AND d.sent_at > g.sign_at ORDER BY d.sent_at LIMIT 1",
            $offset,
            ") AS at FROM names k) unread)"
        )
    };
}
pub(super) use unread;

/// The facts about the key `$1`, `$2`, `$3`, plus more columns and tables. Unread digests are counted ones a
/// relay accepted since the last open or click. Among rows under several names, today's directory row counts,
/// otherwise the latest; a withdrawal wins over a simultaneous consent.
macro_rules! facts {
    ($columns:expr, $tables:expr) => {
        concat!(
            "WITH",
            $crate::names::names!(),
            "
SELECT r.address, r.name, r.zone, r.locale, r.zone_changed_at, r.answered_at, CAST(p.chosen AS TEXT) AS chosen, p.changed_at, c.consent,
       (SELECT CAST(SUM(q.zone_revision) AS BIGINT) FROM recipients q
        WHERE q.user_id = $3 AND q.tenant IN (SELECT tenant FROM names)) AS zone_revision,
       (SELECT MAX(q.generation) FROM generations q
        WHERE q.user_id = $3 AND q.tenant IN (SELECT tenant FROM names)) AS generation,
       (SELECT CAST(SUM(q.revision) AS BIGINT) FROM names k CROSS JOIN preferences q WHERE ",
            $crate::names::of_name!("q", "$3"),
            ") AS revision,
       (SELECT s.reason FROM suppressions s
        WHERE s.tenant IN (SELECT tenant FROM names) AND s.address_lower IN (r.address_lower, r.pseudonym)
        ORDER BY s.suppressed_at, s.reason LIMIT 1) AS suppressed,
       l.sent_at AS last_sent_at, COALESCE(l.slot_at, l.sent_at) AS last_slot_at, l.due_at AS scheduled_at, l.cadence AS last_cadence,
       l.zone AS last_zone,
       o.paused_by, o.why AS paused_why, o.paused_at, o.until_at AS paused_until, g.read_at,
       ",
            $crate::directory::unread!(""),
            " AS unread_since,
       (SELECT d.sent_at FROM names k CROSS JOIN digests d JOIN messages n ON n.id = d.digest_id AND n.counted
        WHERE ",
            $crate::names::of_name!("d", "$3"),
            " AND d.sent_at > g.sign_at AND d.sent_at <= COALESCE(",
            $crate::directory::unread!(" OFFSET 4"),
            ", 9223372036854775807)
        ORDER BY d.sent_at LIMIT 1 OFFSET 4) AS fifth_unread_at",
            $columns,
            "
FROM (SELECT 1 AS one) always
LEFT JOIN (
    SELECT q.address, q.address_lower, q.pseudonym, q.name, q.zone, q.locale, q.zone_changed_at, q.answered_at
    FROM names k CROSS JOIN recipients q WHERE q.tenant = k.tenant AND q.user_id = $3 ORDER BY k.place LIMIT 1) r ON TRUE
LEFT JOIN (
    SELECT q.chosen, q.changed_at FROM names k CROSS JOIN preferences q WHERE ",
            $crate::names::of_name!("q", "$3"),
            " ORDER BY q.changed_at DESC, k.place LIMIT 1) p ON TRUE
LEFT JOIN (
    SELECT q.consent FROM names k CROSS JOIN consents q WHERE ",
            $crate::names::of_name!("q", "$3"),
            " ORDER BY q.changed_at DESC, q.consent LIMIT 1) c ON TRUE
LEFT JOIN (
    SELECT q.read_at, q.sign_at FROM names k CROSS JOIN readings q WHERE ",
            $crate::names::of_name!("q", "$3"),
            " ORDER BY q.sign_at DESC LIMIT 1) g ON TRUE
LEFT JOIN (
    SELECT q.sent_at, q.slot_at, q.due_at, q.cadence, q.zone FROM names k CROSS JOIN digests q WHERE q.digest_id = (
        SELECT digest_id FROM digests
        WHERE tenant = k.tenant AND digest_type = k.digest_type AND user_id = $3 AND sent_at IS NOT NULL
        ORDER BY sent_at DESC LIMIT 1)
    ORDER BY q.sent_at DESC LIMIT 1) l ON TRUE
LEFT JOIN (
    SELECT paused_by, why, paused_at, until_at FROM pauses
    WHERE ended_at IS NULL AND (tenant = '' OR tenant IN (SELECT tenant FROM names))
      AND (digest_type = '' OR digest_type IN (SELECT digest_type FROM names))
    ORDER BY COALESCE(until_at, 9223372036854775807) DESC, paused_at, pause_id LIMIT 1) o ON TRUE",
            $tables
        )
    };
}
pub(super) use facts;

pub const FACTS: &str = facts!("", "");

impl<D: Dialect> SqlStore<D> {
    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<Vec<PersonId>> {
        let changes: Vec<_> = recipients.iter().cloned().map(RecipientChange::from).collect();
        self.change_recipients(&changes, now).await
    }

    async fn change_recipients(&self, changes: &[RecipientChange], now: Timestamp) -> Result<Vec<PersonId>> {
        let (pseudonyms, elsewhere) = (self.pseudonym_secret().await?, self.pseudonyms_elsewhere(changes).await?);
        let mut tx = self.begin_write().await?;
        let moved = Self::put_rows(&mut tx, changes, &pseudonyms, now).await?;
        Self::carry_suppressions(&mut tx, &elsewhere).await?;
        tx.commit().await?;
        Ok(moved)
    }

    async fn count_recipients(&self, tenant: &str) -> Result<u64> {
        let count = query_scalar(COUNT_RECIPIENTS).bind(no_nul(tenant));
        checked_number(count.fetch_one(&mut *self.reader.acquire().await?).await?)
    }

    async fn put_preferences(
        &self,
        key: &Key,
        preferences: &Preferences,
        expected: Option<u64>,
        entry: &AuditEntry,
    ) -> Result<PreferencesPut> {
        let mut tx = self.begin_write().await?;
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
    }

    async fn put_wishes(&self, wishes: &[PreferencesChange], now: Timestamp, why: &str) -> Result<Option<Vec<Key>>> {
        let mut tx = self.begin_write().await?;
        let mut changed = Vec::new();
        for wish in wishes {
            match Self::make_true(&mut tx, wish, now, why).await? {
                Some(true) => changed.push(wish.key.clone()),
                Some(false) => {}
                None => return Ok(None),
            }
        }
        tx.commit().await?;
        Ok(Some(changed))
    }

    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()> {
        let mut tx = self.begin_write().await?;
        Self::change_consent(&mut tx, key, consent, Timestamp::MAX, entry).await?;
        Ok(tx.commit().await?)
    }

    async fn facts(&self, key: &Key) -> Result<KeyFacts> {
        let mut connection = self.reader.acquire().await?;
        let facts = Self::facts_of(&mut connection, key).await?;
        connection.release();
        Ok(facts)
    }
}

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn put_rows(
        connection: &mut D::Connection,
        changes: &[RecipientChange],
        pseudonyms: &Pseudonyms,
        now: Timestamp,
    ) -> Result<Vec<PersonId>> {
        let last: BTreeMap<_, _> = changes.iter().map(|change| ((&change.tenant, &change.user), change)).collect();
        let rows: Vec<_> = last.into_values().map(|change| recipient_row(change, pseudonyms)).collect();
        let mut moved = Vec::new();
        for page in rows.chunks(BATCH_EVENTS) {
            let put = query_as(D::pick_variant(PUT_RECIPIENTS)).bind(to_json(&page)?).bind(now.as_millisecond());
            let put: Vec<PutRow> = put.fetch_all(&mut *connection).await?;
            let now = Some(now.as_millisecond());
            let changed = put.into_iter().filter(|row| row.zone_changed_at.map(Timestamp::as_millisecond) == now);
            moved.extend(changed.map(|row| PersonId { tenant: row.tenant, user: row.user_id }));
        }
        Ok(moved)
    }

    async fn facts_of(connection: &mut D::Connection, key: &Key) -> Result<KeyFacts> {
        let statement = query_as(FACTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let row: FactsRow = statement.fetch_one(connection).await?;
        Ok(row.into_facts(key))
    }

    /// The `$6` of [`PUT_PREFERENCES`] for an expected [`KeyFacts::revision`]. `None` if the directory alone
    /// is past it.
    async fn expected_row(connection: &mut D::Connection, key: &Key, expected: Option<u64>) -> Result<Option<i64>> {
        let Some(expected) = expected else { return Ok(Some(-1)) };
        let zones = query_as(D::pick_variant(ZONE_REVISIONS)).bind(&key.tenant).bind(&key.user);
        let zones: Vec<(i64,)> = zones.fetch_all(connection).await?;
        let zone = checked_number(zones.into_iter().map(|(zone,)| zone).sum())?;
        Ok(expected.checked_sub(zone).and_then(|row| i64::try_from(row).ok()))
    }

    pub(super) async fn write_preferences(
        connection: &mut D::Connection,
        key: &Key,
        preferences: &Preferences,
        row: i64,
        entry: &AuditEntry,
    ) -> Result<bool> {
        let put = query(D::pick_variant(PUT_PREFERENCES)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let put = put.bind(to_json(preferences)?).bind(entry.at.as_millisecond()).bind(row);
        let changed = D::changed_rows(&put.execute(&mut *connection).await?) > 0;
        if changed {
            Self::audit_change(connection, key, None, entry).await?;
        }
        Ok(changed)
    }

    /// Returns `true` if the change had an effect, or `None` if the recipient saw other facts.
    async fn make_true(
        connection: &mut D::Connection,
        wish: &PreferencesChange,
        now: Timestamp,
        why: &str,
    ) -> Result<Option<bool>> {
        let PreferencesChange { key, seen_revision, seen_consent, preferences, consent } = wish;
        let entry = |action: &str| AuditEntry {
            at: now,
            actor: AuditActor::Recipient,
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

    /// Does nothing if consent changed after `since`.
    pub(super) async fn change_consent(
        connection: &mut D::Connection,
        key: &Key,
        consent: bool,
        since: Timestamp,
        entry: &AuditEntry,
    ) -> Result<()> {
        let statement = query(PUT_CONSENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let statement = statement.bind(consent).bind(entry.at.as_millisecond()).bind(since.as_millisecond());
        let statement = statement.bind(StoredWait::PAST.latest_plausible(entry.at).as_millisecond());
        if D::changed_rows(&statement.execute(&mut *connection).await?) > 0 {
            Self::audit_change(connection, key, None, entry).await?;
        } else if consent {
            let again = query(GRANTED_AGAIN).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            again.bind(entry.at.as_millisecond()).execute(connection).await?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
pub struct RecipientRow<'a> {
    #[serde(flatten)]
    pub recipient: &'a RecipientChange,
    pub address_lower: String,
    pub pseudonym: String,
}

fn recipient_row<'a>(recipient: &'a RecipientChange, pseudonyms: &Pseudonyms) -> RecipientRow<'a> {
    let address_lower = EmailAddress::normalize_address(&recipient.address);
    RecipientRow { recipient, pseudonym: pseudonyms.pseudonym_of(&recipient.tenant, &address_lower), address_lower }
}

row! {
pub struct PutRow {
    tenant: String,
    user_id: String,
    zone_changed_at: Option<Timestamp>,
}
}

row! {
pub struct FactsRow {
    address: Option<String>,
    name: Option<String>,
    zone: Option<String>,
    locale: Option<String>,
    zone_revision: Option<u64>,
    zone_changed_at: Option<Timestamp>,
    answered_at: Option<Timestamp>,
    generation: Option<u64>,
    chosen: Option<JsonColumn<Preferences>>,
    revision: Option<u64>,
    changed_at: Option<Timestamp>,
    consent: Option<bool>,
    suppressed: Option<SuppressionReason>,
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
    pub(super) fn into_facts(self, key: &Key) -> KeyFacts {
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
        KeyFacts {
            recipient,
            generation: self.generation.unwrap_or_default(),
            preferences: self.chosen.map(|JsonColumn(chosen)| chosen).unwrap_or_default(),
            revision: self.revision.unwrap_or_default().saturating_add(self.zone_revision.unwrap_or_default()),
            changed_at: self.changed_at.max(self.zone_changed_at),
            consent: self.consent.unwrap_or(true),
            suppressed: self.suppressed,
            last_sent_at: self.last_sent_at,
            last_slot_at: self.last_slot_at,
            last_schedule,
            reading: EngagementTimes {
                read_at: self.read_at,
                unread_since: self.unread_since,
                fifth_unread_at: self.fifth_unread_at,
            },
            pause: self.paused_by.zip(self.paused_at).map(|(by, since)| PauseDetails {
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

/// A row from the team's own directory starts with the current time as its revision, which therefore grows
/// even if the row was deleted in between.
pub const MARK_ANSWER: &str = "
UPDATE recipients SET answered_at = $3,
    zone_revision = zone_revision + CASE WHEN answered_at IS NULL THEN $3 ELSE 0 END
WHERE tenant = $1 AND user_id = $2";

/// Keeps imported rows.
pub const FORGET_ANSWER: &str = concat!(
    "DELETE FROM recipients WHERE user_id = $2 AND answered_at IS NOT NULL AND tenant IN (SELECT tenant FROM ",
    tenants!(),
    " t)"
);

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn keep_answer(
        &self,
        person: &PersonId,
        recipient: Option<&Recipient>,
        now: Timestamp,
    ) -> Result<()> {
        let (tenant, user) = (person.tenant.clone(), person.user.clone());
        let pseudonyms = self.pseudonym_secret().await?;
        let change = recipient.cloned().map(RecipientChange::from);
        let elsewhere = self.pseudonyms_elsewhere(change.as_slice()).await?;
        let mut tx = self.begin_write().await?;
        match &change {
            Some(change) => {
                Self::put_rows(&mut tx, std::slice::from_ref(change), &pseudonyms, now).await?;
                Self::carry_suppressions(&mut tx, &elsewhere).await?;
                let mark = query(MARK_ANSWER).bind(tenant).bind(user).bind(now.as_millisecond());
                mark.execute(&mut *tx).await?;
            }
            None => {
                query(FORGET_ANSWER).bind(tenant).bind(user).execute(&mut *tx).await?;
            }
        }
        Ok(tx.commit().await?)
    }
}
