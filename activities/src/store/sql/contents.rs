//! What a digest's mail shows, without ever holding the digest's events.

use sqlx::query_as;
use tidings_workflows::contract::Window;

use super::{
    Dialect, Sql,
    rows::{self, LineRow},
};
use crate::store::{Contents, Result};

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_contents(&self, window: &Window, max_groups: u32) -> Result<Contents> {
        let id = window.digest_id.to_string();
        let mut tx = self.read().await?;
        let (items, groups) = Self::items_and_groups(&mut tx, window.digest_id).await?;
        let (counts,): (String,) = query_as(D::TOTAL_COUNTS).bind(id.clone()).fetch_one(&mut *tx).await?;
        let lines: Vec<LineRow> = query_as(D::LINES).bind(id).bind(i64::from(max_groups)).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(Contents {
            items,
            groups,
            counts: rows::parsed("counts", &counts)?,
            lines: lines.into_iter().map(rows::group).collect::<Result<_>>()?,
        })
    }
}
