//! The record before the dot, of all attempts that wait for it at once: a commit of SQLite waits for the disk, and it has
//! one writer.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use sqlx::{Connection, query};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Dialect, Sql};
use crate::Result;

/// Records that wait for a connection.
#[derive(Default)]
pub(super) struct Dots(Mutex<Vec<Dot>>);

struct Dot {
    message: Uuid,
    attempt: u32,
    now: Timestamp,
    /// Whether the attempt may send the dot. Dropped where nobody could record it.
    tell: oneshot::Sender<bool>,
}

impl Dots {
    fn push(&self, dot: Dot) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(dot);
    }

    /// Those that somebody still waits for.
    fn take(&self) -> Vec<Dot> {
        let mut dots = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        dots.retain(|dot| !dot.tell.is_closed());
        dots
    }
}

impl<D: Dialect> Sql<D> {
    /// Stands between DATA and the dot of every mail. Whoever gets a connection first records for all that wait for one.
    pub(super) async fn pass_the_dot(&self, message: Uuid, attempt: u32, now: Timestamp) -> Result<bool> {
        loop {
            let (tell, mut told) = oneshot::channel();
            self.dots.push(Dot { message, attempt, now, tell });
            let told = tokio::select! {
                biased;
                told = &mut told => told,
                connection = self.writer.acquire() => {
                    self.record(&mut *connection?).await?;
                    // Another one may have it, and be at it still.
                    told.await
                }
            };
            // Where the other one failed, or was dropped, once more: recording it twice does no harm.
            if let Ok(may_send) = told {
                return Ok(may_send);
            }
        }
    }

    async fn record(&self, connection: &mut D::Connection) -> Result<()> {
        let dots = self.dots.take();
        if dots.is_empty() {
            return Ok(());
        }
        if let [_] = &dots[..] {
            // A transaction of one statement is one round trip.
            let recorded = Self::record_each(connection, dots).await?;
            tell(recorded);
            return Ok(());
        }
        let mut tx = connection.begin_with(D::BEGIN_WRITE).await?;
        let recorded = Self::record_each(&mut tx, dots).await?;
        tx.commit().await?;
        tell(recorded);
        Ok(())
    }

    async fn record_each(connection: &mut D::Connection, dots: Vec<Dot>) -> Result<Vec<(Dot, bool)>> {
        let mut recorded = Vec::with_capacity(dots.len());
        for dot in dots {
            let statement = query(D::PAST_THE_DOT).bind(dot.message.to_string()).bind(i64::from(dot.attempt));
            let done = statement.bind(dot.now.as_millisecond()).execute(&mut *connection).await?;
            recorded.push((dot, D::rows(&done) > 0));
        }
        Ok(recorded)
    }
}

fn tell(recorded: Vec<(Dot, bool)>) {
    for (dot, may_send) in recorded {
        // Nobody waits any more: the attempt is given up, and the next one finds the record.
        let _ = dot.tell.send(may_send);
    }
}
