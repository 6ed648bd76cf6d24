//! The identity of the installation, and the beats of its workers: one row.

use super::columns::row;
use super::dialect::{Dialect, Variants};
use super::{Sql, within_timeout};
use crate::{Error, Installations, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{query, query_as, query_scalar};
use tidings_model::installation::{BEAT, Installation};
use tracing::instrument;
use uuid::Uuid;

/// Namespace of the hashes of places (UUIDv5): drawn once.
const PLACES: Uuid = Uuid::from_u128(0x91e6_04d2_77c5_4b0e_a3f8_5d1c_20b9_46e7);

pub const INSTALLATION: &str = "SELECT identity, beat, before_beat FROM installation";

/// `$2` a first beat.
pub const PUT: &str = "INSERT INTO installation (one, identity, beat, before_beat, beat_at) VALUES (1, $1, $2, $2, 0) ON CONFLICT DO NOTHING";

pub const REPLACE: &str = "UPDATE installation SET identity = $1, beat = $2, before_beat = $2, beat_at = 0";

/// `$1` beat, `$2` next one, `$3` now, `$4` the latest time of a beat that makes another one due.
pub const NEXT_BEAT: &str = "
UPDATE installation SET before_beat = beat, beat = $2, beat_at = $3 WHERE beat = $1 AND (beat_at <= $4 OR beat_at > $3)";

/// `$1` the release of a worker.
pub const KEEP_ZONE_RELEASE: &str = "UPDATE installation SET zone_release = $1 WHERE zone_release < $1";

pub const ZONE_RELEASE: &str = "SELECT zone_release FROM installation";

/// The place of the database, which a copy does not have. A file is known by its number (inode), because containers see it under several paths.
/// A PostgreSQL database is known by its cluster and its number there, which a standby keeps when it is promoted. A server that does not
/// let us read the cluster's number leaves it out.
pub const PLACE: Variants = Variants {
    sqlite: "SELECT file FROM pragma_database_list WHERE name = 'main'",
    postgres: "
SELECT current_schema() || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/'
    || CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
       THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END",
};

#[async_trait]
impl<D: Dialect> Installations for Sql<D> {
    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn installation(&self) -> Result<Option<Installation>> {
        within_timeout(async {
            let mut reader = self.reader.acquire().await?;
            let row: Option<InstallationRow> = query_as(INSTALLATION).fetch_optional(&mut *reader).await?;
            let Some(InstallationRow { identity, beat, before_beat }) = row else { return Ok(None) };
            let (place,): (String,) = query_as(D::pick(PLACE)).fetch_one(&mut *reader).await?;
            let place = Uuid::new_v5(&PLACES, D::place(&place).as_bytes()).to_string();
            Ok(Some(Installation { identity, beat, before: before_beat, place }))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(%identity, replace), err(level = "debug"))]
    async fn put_installation(&self, identity: Uuid, replace: bool) -> Result<Installation> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let put = |statement| query(statement).bind(identity.to_string()).bind(Uuid::new_v4().to_string());
            put(PUT).execute(&mut *tx).await?;
            if replace {
                put(REPLACE).execute(&mut *tx).await?;
            }
            Ok(tx.commit().await?)
        })
        .await?;
        self.installation().await?.ok_or_else(|| Error::Broken("the database has no identity".to_owned()))
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn beat(&self, from: Uuid, to: Uuid, now: Timestamp) -> Result<bool> {
        within_timeout(async {
            let beat = query(NEXT_BEAT).bind(from.to_string()).bind(to.to_string()).bind(now.as_millisecond());
            let beat = beat.bind((now - BEAT).as_millisecond());
            Ok(D::rows(&beat.execute(&mut *self.writer.acquire().await?).await?) > 0)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(release), err(level = "debug"))]
    async fn keep_zone_release(&self, release: &str) -> Result<()> {
        within_timeout(async {
            let keep = query(KEEP_ZONE_RELEASE).bind(release.to_owned());
            keep.execute(&mut *self.writer.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn zone_release(&self) -> Result<String> {
        within_timeout(async {
            let release = query_scalar(ZONE_RELEASE).fetch_optional(&mut *self.reader.acquire().await?).await?;
            Ok(release.unwrap_or_default())
        })
        .await
    }
}

row! {
/// Columns of [`INSTALLATION`].
pub struct InstallationRow {
    identity: Uuid,
    beat: Uuid,
    before_beat: Uuid,
}
}
