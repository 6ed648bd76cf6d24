//! The listings of the directory and of chosen zones.

use sqlx::query_as;
use tidings_model::{
    EmailAddress, Key,
    records::{Cursor, KeyPlace, Listed, ListedRecipient, Page, Reason, Recipient, RecipientFilter, RecipientPlace},
    zone_aliases,
};

use crate::{
    Result,
    sql::{
        Sql,
        columns::row,
        dialect::{Dialect, Variants},
        json,
    },
};

/// The recipients of these zones.
macro_rules! recipients {
    ($zones:literal) => {
        concat!(
            "
SELECT * FROM (
    SELECT r.tenant, r.user_id, r.address, r.name, r.zone, r.locale,
           (SELECT s.reason FROM suppressions s WHERE s.tenant = r.tenant AND s.address_lower IN (r.address_lower, r.pseudonym)
            ORDER BY s.suppressed_at, s.reason LIMIT 1) AS suppressed
    FROM recipients r
    WHERE (r.tenant = $1 OR $1 = '') AND (r.address_lower = $2 OR $2 = '') AND ($3 = '[]' OR r.zone IN (",
            $zones,
            "))
      AND (r.locale = $4 OR $4 = '') AND (r.tenant, r.user_id) > ($6, $7)) known
WHERE suppressed IS NOT NULL OR NOT $5
ORDER BY tenant, user_id LIMIT $8"
        )
    };
}

/// `$1` tenant, `$2` folded address, `$3` JSON array of the names that a zone has had, `$4` locale; each may be empty. `$5`: only suppressed
/// ones. After the tenant `$6` and the user `$7`; `$8` limit.
pub const RECIPIENTS: Variants = Variants {
    sqlite: recipients!("SELECT value FROM jsonb_each($3)"),
    postgres: recipients!("SELECT jsonb_array_elements_text($3::jsonb)"),
};

/// After the tenant `$1` and the user `$2`; `$3` limit.
pub const DIRECTORY: &str = "
SELECT tenant, user_id, address, name, zone, locale, CAST(NULL AS TEXT) AS suppressed FROM recipients WHERE (tenant, user_id) > ($1, $2)
ORDER BY tenant, user_id LIMIT $3";

/// After the tenant `$1`, the digest type `$2` and the user `$3`; `$4` limit.
pub const CHOSEN_ZONES: &str = "
SELECT tenant, digest_type, user_id, chosen->>'zone' AS zone FROM preferences
WHERE chosen->>'zone' IS NOT NULL AND (tenant, digest_type, user_id) > ($1, $2, $3)
ORDER BY tenant, digest_type, user_id LIMIT $4";

impl<D: Dialect> Sql<D> {
    pub(super) async fn list_directory(
        connection: &mut D::Connection,
        page: &Page<RecipientPlace>,
    ) -> Result<Listed<Recipient, RecipientPlace>> {
        let (tenant, user) = page.after.clone().map(|Cursor(place)| place).unwrap_or_default();
        let rows = query_as(DIRECTORY).bind(tenant).bind(user).bind(page.rows_to_read());
        let rows: Vec<RecipientRow> = rows.fetch_all(connection).await?;
        let rows = rows.into_iter().map(|row| ListedRecipient::from(row).recipient).collect();
        Ok(page.listed(rows, |last: &Recipient| (last.tenant.clone(), last.user.clone())))
    }

    pub(super) async fn list_chosen_zones(
        connection: &mut D::Connection,
        page: &Page<KeyPlace>,
    ) -> Result<Listed<(Key, String), KeyPlace>> {
        let (tenant, digest_type, user) = page.after.clone().map(|Cursor(place)| place).unwrap_or_default();
        let rows = query_as(CHOSEN_ZONES).bind(tenant).bind(digest_type).bind(user).bind(page.rows_to_read());
        let rows: Vec<ZoneRow> = rows.fetch_all(connection).await?;
        let key = |row: ZoneRow| {
            let ZoneRow { tenant, digest_type, user_id: user, zone } = row;
            (Key { tenant, digest_type, user }, zone)
        };
        let rows = rows.into_iter().map(key).collect();
        Ok(page.listed(rows, |(last, _): &(Key, String)| {
            (last.tenant.clone(), last.digest_type.clone(), last.user.clone())
        }))
    }

    pub(super) async fn list_recipients(
        connection: &mut D::Connection,
        filter: &RecipientFilter,
    ) -> Result<Listed<ListedRecipient, RecipientPlace>> {
        let RecipientFilter { tenant, address, zone, locale, suppressed, page } = filter;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (after_tenant, after_user) = page.after.clone().map(|Cursor(place)| place).unwrap_or_default();
        let names = zone.as_deref().map(zone_aliases).unwrap_or_default();
        let rows = query_as(D::pick(RECIPIENTS))
            .bind(text(tenant))
            .bind(EmailAddress::folded(address.as_deref().unwrap_or_default()))
            .bind(json(&names)?)
            .bind(text(locale))
            .bind(*suppressed)
            .bind(after_tenant)
            .bind(after_user)
            .bind(page.rows_to_read());
        let rows: Vec<RecipientRow> = rows.fetch_all(connection).await?;
        let rows = rows.into_iter().map(ListedRecipient::from).collect();
        Ok(page.listed(rows, |last: &ListedRecipient| (last.recipient.tenant.clone(), last.recipient.user.clone())))
    }
}

row! {
/// Columns of [`CHOSEN_ZONES`].
pub struct ZoneRow {
    tenant: String,
    digest_type: String,
    user_id: String,
    zone: String,
}
}

row! {
/// Columns of [`RECIPIENTS`] and of [`DIRECTORY`].
pub struct RecipientRow {
    tenant: String,
    user_id: String,
    address: String,
    name: String,
    zone: String,
    locale: String,
    suppressed: Option<Reason>,
}
}

impl From<RecipientRow> for ListedRecipient {
    fn from(row: RecipientRow) -> Self {
        let RecipientRow { tenant, user_id: user, address, name, zone, locale, suppressed } = row;
        Self { recipient: Recipient { tenant, user, address, name, zone, locale }, suppressed }
    }
}
