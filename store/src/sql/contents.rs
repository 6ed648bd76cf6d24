//! What a digest's mail shows, without ever holding the digest's events.

use std::collections::BTreeMap;

use sqlx::query_as;
use tidings_model::{
    contract::Window,
    records::{Contents, Group},
};
use uuid::Uuid;

use super::{
    Dialect, Sql,
    columns::{Json, row},
    rows::LineRow,
};
use crate::Result;

row! {
/// Columns of [`TOTALS`](Dialect::TOTALS).
struct TotalsRow {
    items: u64,
    groups: u64,
    counts: Json<BTreeMap<String, i64>>,
}
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_contents(&self, window: &Window, max_groups: u32) -> Result<Contents> {
        let mut tx = self.read().await?;
        let contents = Self::contents_of(&mut tx, window.digest_id, max_groups).await?;
        tx.commit().await?;
        Ok(contents)
    }

    /// In a transaction, so that all parts are of one state of the database.
    pub(super) async fn contents_of(
        connection: &mut D::Connection,
        digest_id: Uuid,
        max_groups: u32,
    ) -> Result<Contents> {
        let id = digest_id.to_string();
        let totals = query_as(D::TOTALS).bind(id.clone()).fetch_one(&mut *connection).await?;
        let TotalsRow { items, groups, counts: Json(counts) } = totals;
        let lines = query_as(D::LINES).bind(id).bind(i64::from(max_groups));
        let lines: Vec<LineRow> = lines.fetch_all(connection).await?;
        Ok(Contents { items, groups, counts, lines: lines.into_iter().map(Group::from).collect() })
    }
}
