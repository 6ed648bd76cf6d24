//! The last answers of a team's own directory.

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    PersonId,
    records::{Recipient, RecipientChange},
};

use crate::{
    Result,
    names::tenants,
    sql::{Sql, dialect::Dialect},
};

/// Tenant, user, `$3` now. The revision of a row that the team's own directory gave begins at the time, so that it grows although
/// the row was deleted in between.
pub const MARK_ANSWER: &str = "
UPDATE recipients SET answered_at = $3,
    zone_revision = zone_revision + CASE WHEN answered_at IS NULL THEN $3 ELSE 0 END
WHERE tenant = $1 AND user_id = $2";

/// Tenant, user. Rows of an import stay.
pub const FORGET_ANSWER: &str = concat!(
    "DELETE FROM recipients WHERE user_id = $2 AND answered_at IS NOT NULL AND tenant IN (SELECT tenant FROM ",
    tenants!(),
    " t)"
);

impl<D: Dialect> Sql<D> {
    pub(crate) async fn keep_answer(
        &self,
        person: &PersonId,
        recipient: Option<&Recipient>,
        now: Timestamp,
    ) -> Result<()> {
        let (tenant, user) = (person.tenant.clone(), person.user.clone());
        let pseudonyms = self.secret().await?;
        let change = recipient.cloned().map(RecipientChange::from);
        let elsewhere = self.pseudonyms_elsewhere(change.as_slice()).await?;
        let mut tx = self.write().await?;
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
