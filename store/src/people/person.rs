//! A person as the store knows them apart from the ledger.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{FromRow, query_as};
use tidings_model::{
    EmailAddress, Key, PersonId,
    records::{ListedRecipient, Person, PersonsChoice, PersonsConsent, PersonsReading, Preferences, Suppression},
};

use crate::{
    Result,
    people::listing::RecipientRow,
    sql::{
        Sql,
        columns::{Json, row},
        dialect::Dialect,
        no_nul,
    },
    suppressions::SuppressionRow,
};

pub const RECIPIENT: &str = "
SELECT tenant, user_id, address, name, zone, locale, CAST(NULL AS TEXT) AS suppressed FROM recipients WHERE tenant = $1 AND user_id = $2";

pub const CHOICES: &str = "
SELECT digest_type, CAST(chosen AS TEXT) AS chosen, revision, changed_at FROM preferences
WHERE tenant = $1 AND user_id = $2 ORDER BY digest_type";

pub const CONSENTS: &str = "
SELECT digest_type, consent, changed_at FROM consents WHERE tenant = $1 AND user_id = $2 ORDER BY digest_type";

pub const READINGS: &str = "
SELECT digest_type, read_at, sign_at FROM readings WHERE tenant = $1 AND user_id = $2 ORDER BY digest_type";

pub const SUPPRESSIONS_OF: &str = "
SELECT tenant, address_lower, reason, detail, suppressed_at FROM suppressions
WHERE tenant = $1 AND (address_lower = $2 OR address_lower IN
    (SELECT r.pseudonym FROM recipients r WHERE r.tenant = $1 AND r.address_lower = $2))
ORDER BY suppressed_at, reason";

/// Also of types that no file has. Notices about single messages have none.
pub const TYPES_OF: &str = "
SELECT DISTINCT digest_type FROM digests WHERE tenant = $1 AND user_id = $2
UNION SELECT digest_type FROM retracts WHERE tenant = $1 AND user_id = $2
UNION SELECT digest_type FROM notices WHERE tenant = $1 AND user_id = $2 AND digest_type <> ''";

/// Tenant, user, `$3` pattern of the workflow ids of all keys of the person, which are between `$4` and `$5`. SQLite's LIKE takes a capital
/// for a small letter.
pub const WORKFLOWS_OF: &str = "
SELECT workflow_id FROM inbox WHERE tenant = $1 AND user_id = $2
UNION SELECT workflow_id FROM dead_letters WHERE workflow_id > $4 AND workflow_id < $5 AND workflow_id LIKE $3 ESCAPE '!'
UNION SELECT workflow_id FROM job_keys WHERE workflow_id > $4 AND workflow_id < $5 AND workflow_id LIKE $3 ESCAPE '!'
UNION SELECT workflow_id FROM troubled_runs WHERE workflow_id > $4 AND workflow_id < $5 AND workflow_id LIKE $3 ESCAPE '!'";

/// Addresses that messages were made for, as the envelopes have them, each with the former ones.
pub const ENVELOPES_OF: &str = "
SELECT DISTINCT m.envelope_to, m.former_envelopes FROM digests d JOIN messages m ON m.id = d.digest_id
WHERE d.tenant = $1 AND d.user_id = $2
UNION SELECT envelope_to, former_envelopes FROM messages WHERE tenant = $1 AND user_id = $2 AND digest_id IS NULL";

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_person(connection: &mut D::Connection, person: &PersonId) -> Result<Person> {
        let recipient: Vec<RecipientRow> = Self::of_person(&mut *connection, RECIPIENT, person).await?;
        let recipient = recipient.into_iter().next().map(|row| ListedRecipient::from(row).recipient);
        let choices: Vec<ChoiceRow> = Self::of_person(&mut *connection, CHOICES, person).await?;
        let consents: Vec<ConsentRow> = Self::of_person(&mut *connection, CONSENTS, person).await?;
        let readings: Vec<ReadingRow> = Self::of_person(&mut *connection, READINGS, person).await?;
        let types: Vec<(String,)> = Self::of_person(&mut *connection, TYPES_OF, person).await?;
        let workflows = Self::workflows_of(&mut *connection, person).await?;
        let envelopes: Vec<EnvelopeRow> = Self::of_person(&mut *connection, ENVELOPES_OF, person).await?;
        let envelopes = envelopes.iter().flat_map(EnvelopeRow::addresses);
        let mut addresses: BTreeSet<_> = envelopes.map(|address| EmailAddress::folded(address)).collect();
        addresses.extend(recipient.iter().map(|recipient| EmailAddress::folded(&recipient.address)));
        let suppressions = Self::suppressions_of(connection, &person.tenant, &addresses).await?;
        let preferences: Vec<_> = choices.into_iter().map(PersonsChoice::from).collect();
        let consents: Vec<_> = consents.into_iter().map(PersonsConsent::from).collect();
        let readings: Vec<_> = readings.into_iter().map(PersonsReading::from).collect();
        let mut digest_types: BTreeSet<_> = types.into_iter().map(|(digest_type,)| digest_type).collect();
        digest_types.extend(workflows.into_iter().map(|key| key.digest_type));
        digest_types.extend(preferences.iter().map(|choice| choice.digest_type.clone()));
        digest_types.extend(consents.iter().map(|consent| consent.digest_type.clone()));
        digest_types.extend(readings.iter().map(|reading| reading.digest_type.clone()));
        Ok(Person { recipient, preferences, consents, readings, suppressions, addresses, digest_types })
    }

    async fn workflows_of(connection: &mut D::Connection, person: &PersonId) -> Result<Vec<Key>> {
        let PersonId { tenant, user } = person;
        // An id has no `!`: everything but letters, digits and `-._~` is percent-encoded.
        let without_type = person.key("").workflow_id().replace('%', "!%").replace('_', "!_");
        let pattern = without_type.replace("//", "/%/");
        let [first, end] = workflows_between(tenant);
        let ids = query_as(WORKFLOWS_OF).bind(no_nul(tenant)).bind(no_nul(user)).bind(pattern).bind(first).bind(end);
        let ids: Vec<(String,)> = ids.fetch_all(connection).await?;
        let keys = ids.into_iter().filter_map(|(id,)| Key::from_workflow_id(&id).ok());
        Ok(keys.filter(|key| key.tenant == *tenant && key.user == *user).collect())
    }

    async fn of_person<R: for<'r> FromRow<'r, D::Row> + Send + Unpin>(
        connection: &mut D::Connection,
        statement: &'static str,
        PersonId { tenant, user }: &PersonId,
    ) -> Result<Vec<R>> {
        Ok(query_as(statement).bind(tenant.clone()).bind(user.clone()).fetch_all(connection).await?)
    }

    async fn suppressions_of(
        connection: &mut D::Connection,
        tenant: &str,
        addresses: &BTreeSet<String>,
    ) -> Result<Vec<Suppression>> {
        let mut suppressions = Vec::new();
        for address in addresses {
            let rows = query_as(SUPPRESSIONS_OF).bind(tenant.to_owned()).bind(address.clone());
            let rows: Vec<SuppressionRow> = rows.fetch_all(&mut *connection).await?;
            suppressions.extend(rows.into_iter().map(Suppression::from));
        }
        Ok(suppressions)
    }
}

/// All workflow ids of a tenant's keys are between these.
pub fn workflows_between(tenant: &str) -> [String; 2] {
    let first = Key::workflow_ids_of(tenant);
    // Of all characters the next after the slash.
    let end = format!("{}0", first.trim_end_matches('/'));
    [first, end]
}

row! {
/// Columns of [`ENVELOPES_OF`].
pub struct EnvelopeRow {
    envelope_to: String,
    former_envelopes: Option<Json<BTreeSet<String>>>,
}
}

impl EnvelopeRow {
    fn addresses(&self) -> impl Iterator<Item = &String> {
        [&self.envelope_to].into_iter().chain(self.former_envelopes.iter().flat_map(|former| &former.0))
    }
}

row! {
/// Columns of [`CHOICES`].
pub struct ChoiceRow {
    digest_type: String,
    chosen: Json<Preferences>,
    revision: u64,
    changed_at: Timestamp,
}
}

impl From<ChoiceRow> for PersonsChoice {
    fn from(row: ChoiceRow) -> Self {
        let ChoiceRow { digest_type, chosen: Json(chosen), revision, changed_at } = row;
        Self { digest_type, chosen, revision, changed_at }
    }
}

row! {
/// Columns of [`CONSENTS`].
pub struct ConsentRow {
    digest_type: String,
    consent: bool,
    changed_at: Timestamp,
}
}

impl From<ConsentRow> for PersonsConsent {
    fn from(row: ConsentRow) -> Self {
        let ConsentRow { digest_type, consent, changed_at } = row;
        Self { digest_type, consent, changed_at }
    }
}

row! {
/// Columns of [`READINGS`].
pub struct ReadingRow {
    digest_type: String,
    read_at: Option<Timestamp>,
    sign_at: Timestamp,
}
}

impl From<ReadingRow> for PersonsReading {
    fn from(ReadingRow { digest_type, read_at, sign_at }: ReadingRow) -> Self {
        Self { digest_type, read_at, sign_at }
    }
}
