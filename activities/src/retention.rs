//! Retention: the activities that archive and delete what is too old, one batch after the other.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::{
    Alert,
    inbox::Limits,
    retention::{Cutoff, CutoffsInput, Kind, Purged},
};
use tidings_store::{Store, archive::Archive};
use tidings_workflows::retention::activities::definitions;

use crate::{
    deps::now,
    error::{Error, answer},
};

/// The age limit of each kind of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events, counted from their digest's end; also retracts and dead letters, counted from when they came, and notices,
    /// counted from their delivery. `None`: for good. An event id is known for as long (rule 3).
    pub events: Option<Duration>,
    /// Messages, counted from their end; `None`: for good. An idempotency key is known for as long.
    pub messages: Option<Duration>,
    /// Delivery events, counted from when they came; `None`: for good.
    pub delivery_events: Option<Duration>,
    /// Events of the gateway's inbox, counted from their forwarding.
    pub inbox: Duration,
    /// Receives deleted rows; `None`: they are not archived.
    pub archive: Option<Archive>,
}

impl Retention {
    /// The default age.
    pub const DEFAULT: Duration = Duration::from_hours(90 * 24);

    /// Returns the cutoffs at that time.
    #[must_use]
    pub fn cutoffs(&self, now: Timestamp) -> Vec<Cutoff> {
        let cutoff = |kind| {
            let age = SignedDuration::try_from(self.age(kind)?).unwrap_or(SignedDuration::MAX);
            Some(Cutoff { kind, before: now.saturating_sub(age).unwrap_or(Timestamp::MIN) })
        };
        Kind::ALL.into_iter().filter_map(cutoff).collect()
    }

    const fn age(&self, kind: Kind) -> Option<Duration> {
        match kind {
            Kind::Events | Kind::Retracts | Kind::DeadLetters | Kind::Notices => self.events,
            Kind::Messages => self.messages,
            Kind::DeliveryEvents => self.delivery_events,
            Kind::Inbox => Some(self.inbox),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        let age = Some(Self::DEFAULT);
        Self { events: age, messages: age, delivery_events: age, inbox: Limits::default().keep, archive: None }
    }
}

/// Rows of a batch: while it is archived SQLite takes nothing else. A mail or a dead letter is up to a hundred times as large
/// as the other rows.
const fn batch(kind: Kind) -> u32 {
    match kind {
        Kind::Events | Kind::Retracts | Kind::DeliveryEvents | Kind::Inbox | Kind::Notices => 500,
        Kind::DeadLetters | Kind::Messages => 50,
    }
}

/// The activities of the retention workflow.
pub struct RetentionActivities {
    /// The store to purge.
    pub store: Arc<dyn Store>,
    /// For how long.
    pub retention: Retention,
}

#[activities]
impl RetentionActivities {
    /// Fixes the cutoffs of this run.
    ///
    /// # Errors
    /// Never. The SDK asks every activity for a `Result`.
    #[activity(definition = definitions::Cutoffs)]
    #[expect(clippy::unused_async, reason = "the SDK runs an activity that is not async on a thread of its own")]
    pub async fn cutoffs(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: CutoffsInput,
    ) -> Result<Vec<Cutoff>, ActivityError> {
        Ok(self.retention.cutoffs(now(input.asked_at)))
    }

    /// Archives and deletes a batch.
    ///
    /// # Errors
    /// The store cannot answer, or the archive cannot be written: make room, or correct `[retention] archive`. Nothing is deleted,
    /// and Temporal calls again.
    #[activity(definition = definitions::Purge)]
    pub async fn purge(self: Arc<Self>, _ctx: ActivityContext, cutoff: Cutoff) -> Result<Purged, ActivityError> {
        answer(self.purge_batch(cutoff).await)
    }
}

impl RetentionActivities {
    async fn purge_batch(&self, cutoff: Cutoff) -> Result<Purged, Error> {
        let archive = self.retention.archive.as_ref();
        let purged = self.store.purge(cutoff, batch(cutoff.kind), archive, Timestamp::now()).await;
        if let Err(tidings_store::Error::Archive(error)) = &purged {
            tracing::error!(alert = %Alert::ArchiveFailed, %error, "upkeep waits, and the store grows");
        }
        Ok(purged?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_retention_has_no_cutoff() {
        let now: Timestamp = "2026-11-21T03:30:00Z".parse().unwrap();
        let cutoffs = |retention: Retention| {
            let cutoffs = retention.cutoffs(now).into_iter();
            cutoffs.map(|Cutoff { kind, before }| format!("{} {before}", kind.name())).collect::<Vec<_>>()
        };
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
        let forever = Retention { events: None, messages: days(1), delivery_events: None, ..Retention::default() };
        assert_eq!(cutoffs(forever), ["messages 2026-11-20T03:30:00Z", "inbox 2026-11-18T03:30:00Z"]);
        let all = Retention { messages: days(30), delivery_events: days(7), ..Retention::default() };
        assert_eq!(
            cutoffs(all),
            [
                "events 2026-08-23T03:30:00Z",
                "retracts 2026-08-23T03:30:00Z",
                "dead_letters 2026-08-23T03:30:00Z",
                "messages 2026-10-22T03:30:00Z",
                "delivery_events 2026-11-14T03:30:00Z",
                "inbox 2026-11-18T03:30:00Z",
                "notices 2026-08-23T03:30:00Z"
            ]
        );
    }
}
