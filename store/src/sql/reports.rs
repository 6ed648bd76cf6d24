//! Delivery events: each is recorded once, with all its effects, in one transaction.

use super::attempts::{SENT_DIGEST, SENT_MESSAGE};
use super::columns::{Column, row, unknown};
use super::dialect::{Dialect, Variants};
use super::message::{LockedMessage, MESSAGE_RECORD, RecordRow};
use super::suppressions::LIFT;
use super::{Sql, within_timeout};
use crate::address::folded;
use crate::{Error, Reports, Result, pseudonym::PREFIX};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::error::BoxDynError;
use sqlx::{query, query_as};
use tidings_model::breaker::Evidence;
use tidings_model::delivery_events::{
    Against, Bounce, Effects, Kind, Known, LetterEmitted, Recorded, Report, ReportRecord, Reported, RequestRecorded,
    Status, WebhookRequest, Which, effects,
};
use tidings_model::records::{AuditEntry, MessageRecord, Origin, Reason, WebhookLetterId};
use tidings_model::report::Counted;
use tidings_model::step::{Closed, Outcome};
use tracing::instrument;
use uuid::Uuid;

/// Tenant, address in lower case. Keeps it for the transaction, whether there is a row of it or not. A message's row
/// comes first.
pub const LOCK_ADDRESS: Variants = Variants {
    sqlite: "SELECT $1, $2",
    postgres: "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))",
};

/// `$1` message, `$2` `Message-ID`, `$3` tenant; each may be empty. Only a message that a relay was given can be reported.
pub const REPORTED_MESSAGE: &str = "
SELECT m.id FROM messages m
WHERE (m.id = $1 OR m.message_id = $2) AND (m.tenant = $3 OR $3 = '')
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL) LIMIT 2";

/// `$1` the relay's id, `$2` tenant or empty.
pub const MESSAGE_OF_RELAY_ID: &str = "
SELECT DISTINCT a.message FROM attempts a
WHERE a.relay_id = $1 AND a.past_the_dot_at IS NOT NULL AND (a.tenant = $2 OR $2 = '') LIMIT 2";

pub const PUT_DELIVERY_EVENT: &str = "
INSERT INTO delivery_events (message, event, tenant, address_lower, kind, bounce, status, diagnostic, relay, event_id,
                             occurred_at, received_at, never_sent, machine, url)
VALUES ($1, $2, $3, $4, $5, NULLIF($6, ''), NULLIF($7, ''), $8, NULLIF($9, ''), NULLIF($10, ''), $11, $12, $13,
        NULLIF($14, ''), NULLIF($15, ''))
ON CONFLICT DO NOTHING";

pub const DELIVERY_EVENTS: &str = "
SELECT kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at, never_sent, machine, url
FROM delivery_events WHERE message = $1 ORDER BY occurred_at, event";

/// The time of the first soft bounce of each message to the address since its last delivery; `$3` limit.
pub const SOFT_BOUNCED: &str = "
SELECT MIN(e.occurred_at) AS first_at FROM delivery_events e
WHERE e.tenant = $1 AND e.address_lower = $2 AND e.bounce = 'soft' AND NOT e.never_sent
  AND e.occurred_at > COALESCE((SELECT MAX(d.occurred_at) FROM delivery_events d
                                WHERE d.tenant = $1 AND d.address_lower = $2 AND d.kind = 'delivered'), -1)
  AND NOT EXISTS (SELECT 1 FROM delivery_events d WHERE d.message = e.message AND d.kind = 'delivered')
GROUP BY e.message ORDER BY first_at LIMIT $3";

/// The earliest dot of an attempt that the relay is not known to have refused.
pub const TAKEN_AT: &str = "
SELECT MIN(past_the_dot_at) FROM attempts
WHERE message = $1 AND (class IS NULL OR class IN ('sent', 'ambiguous', 'fenced', 'cancelled'))";

pub const TAKEN_BY: &str = "
SELECT relay FROM attempts WHERE message = $1 AND (class = 'sent' OR late_class = 'sent') ORDER BY number DESC LIMIT 1";

const YES: &str = "yes";
const NO: &str = "no";

/// Of one that has an end.
pub const REPORT_MESSAGE: &str = "UPDATE messages SET state = $2, why = $3 WHERE id = $1 AND closed_at IS NOT NULL";

#[async_trait]
impl<D: Dialect> Reports for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(tenant = event.tenant, relay = event.relay), err(level = "debug"))]
    async fn put_delivery_event(
        &self,
        event: &Reported,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Option<Recorded>> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let Some(id) = Self::find_reported(&mut tx, event).await? else { return Ok(None) };
            let recorded = Self::record_event(&mut tx, id, event, soft_bounces, now).await?;
            tx.commit().await?;
            Ok(Some(recorded))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(relay = request.relay, events = request.events.len()), err(level = "debug"))]
    async fn put_webhook_request(
        &self,
        request: &WebhookRequest,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<RequestRecorded> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let recorded = Self::record_request(&mut tx, request, soft_bounces, now).await?;
            tx.commit().await?;
            Ok(recorded)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(letter = %id), err(level = "debug"))]
    async fn emit_webhook_letter(
        &self,
        id: &WebhookLetterId,
        events: &[Reported],
        soft_bounces: u32,
        entry: &AuditEntry,
    ) -> Result<LetterEmitted> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let emitted = Self::emit_letter(&mut tx, id, events, soft_bounces, entry).await?;
            if matches!(emitted, LetterEmitted::Now(_)) {
                tx.commit().await?;
            }
            Ok(emitted)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant, message = %message), err(level = "debug"))]
    async fn forget_reading(&self, tenant: &str, message: Uuid) -> Result<()> {
        within_timeout(async { Self::delete_reading(&mut *self.writer.acquire().await?, tenant, message).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(message = %message), err(level = "debug"))]
    async fn count_unsubscribed(&self, message: Uuid) -> Result<()> {
        within_timeout(async {
            Self::mark_reported(&mut *self.writer.acquire().await?, message, Counted::Unsubscribed).await
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(message = %message), err(level = "debug"))]
    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>> {
        within_timeout(async { Self::reports(&mut *self.reader.acquire().await?, message).await }).await
    }
}

impl<D: Dialect> Sql<D> {
    /// Records an event about the message `id`, with its effects.
    pub(super) async fn record_event(
        tx: &mut D::Connection,
        id: Uuid,
        event: &Reported,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Recorded> {
        let locked = Self::lock_message(&mut *tx, id).await?;
        let message = Self::reported_message(&mut *tx, id).await?;
        let event = &spoken_of(&message, event);
        let withdrawn = match (&message.origin, event.report.kind) {
            (Origin::Digest(key), Kind::Unsubscribed) => Some(key.clone()),
            _ => None,
        };
        if !Self::insert_report(&mut *tx, &message, event, now).await? {
            return Ok(Recorded { message: id, again: true, withdrawn, against: None });
        }
        Self::mark_reported(&mut *tx, id, Counted::of(&event.report)).await?;
        Self::put_reading(&mut *tx, &message, &event.report).await?;
        let effects = Self::effects_of(&mut *tx, &message, event, soft_bounces, now).await?;
        Self::carry_out(&mut *tx, &message, locked, &effects, event.report.occurred_at, now).await?;
        // A message that the provider kept back met no server, so that it says nothing about the mail that the relay takes.
        let evidence = match event.report.kind {
            _ if event.report.never_sent => None,
            Kind::Bounced(Bounce::Hard) => Some(Evidence::Bounced),
            Kind::Complained => Some(Evidence::Complained),
            _ => None,
        };
        let relay = if evidence.is_some() { Self::taken_by(tx, id).await? } else { None };
        let tenant = message.origin.tenant().to_owned();
        let against = relay.zip(evidence).map(|(relay, evidence)| Against { relay, tenant, evidence });
        Ok(Recorded { message: id, again: false, withdrawn, against })
    }

    pub(super) async fn reported_message(connection: &mut D::Connection, id: Uuid) -> Result<MessageRecord> {
        let row: RecordRow = query_as(MESSAGE_RECORD).bind(id.to_string()).fetch_one(connection).await?;
        Ok(MessageRecord::from(row))
    }

    /// Finds the message by the first reference that anything has. An event that could be about two messages is about neither.
    pub(super) async fn find_reported(connection: &mut D::Connection, event: &Reported) -> Result<Option<Uuid>> {
        let tenant = event.tenant.clone().unwrap_or_default();
        for which in &event.of {
            let statement = match which {
                Which::Id(id) => query_as(REPORTED_MESSAGE).bind(id.to_string()).bind(String::new()),
                Which::MessageId(message_id) => query_as(REPORTED_MESSAGE).bind(String::new()).bind(message_id.clone()),
                Which::RelayId(relay_id) => query_as(MESSAGE_OF_RELAY_ID).bind(relay_id.clone()),
            };
            let found: Vec<(String,)> = statement.bind(tenant.clone()).fetch_all(&mut *connection).await?;
            match found.as_slice() {
                [] => {}
                [(id,)] => {
                    let broken = |_| Error::Broken(format!("a message id in the store: {id:?}"));
                    return id.parse().map(Some).map_err(broken);
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// `false`: it was there.
    async fn insert_report(
        connection: &mut D::Connection,
        message: &MessageRecord,
        event: &Reported,
        now: Timestamp,
    ) -> Result<bool> {
        let Report { kind, status, diagnostic, occurred_at, never_sent, machine, url } = &event.report;
        let machine = machine.map_or("", |machine| if machine { YES } else { NO });
        let insert = query(PUT_DELIVERY_EVENT)
            .bind(message.id.to_string())
            .bind(event.report.id(message.id).to_string())
            .bind(message.origin.tenant().to_owned())
            .bind(folded(&message.envelope_to))
            .bind(kind.name().to_owned())
            .bind(kind.bounce().map_or("", Bounce::name).to_owned())
            .bind(status.map(|status| status.to_string()).unwrap_or_default())
            .bind(diagnostic.clone())
            .bind(event.relay.clone().unwrap_or_default())
            .bind(event.event_id.clone().unwrap_or_default())
            .bind(occurred_at.as_millisecond())
            .bind(now.as_millisecond())
            .bind(*never_sent)
            .bind(machine.to_owned())
            .bind(url.clone().unwrap_or_default());
        Ok(D::rows(&insert.execute(connection).await?) > 0)
    }

    async fn effects_of(
        connection: &mut D::Connection,
        message: &MessageRecord,
        event: &Reported,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Effects> {
        let (tenant, address) = (message.origin.tenant().to_owned(), folded(&message.envelope_to));
        // Two messages to one address that bounce at once would not see each other.
        let lock = query(D::pick(LOCK_ADDRESS)).bind(tenant.clone()).bind(address.clone());
        lock.execute(&mut *connection).await?;
        let soft = query_as(SOFT_BOUNCED).bind(tenant).bind(address).bind(i64::from(soft_bounces));
        let soft: Vec<(i64,)> = soft.fetch_all(&mut *connection).await?;
        let soft = soft
            .into_iter()
            .map(|(at,)| <Timestamp as Column>::read(at).map_err(|error| Error::Broken(error.to_string())))
            .collect::<Result<Vec<_>>>()?;
        let reports = Self::reports(connection, message.id).await?;
        let reports: Vec<_> = reports.into_iter().map(|record| record.report).collect();
        let relay = event.relay.as_deref();
        let known = Known { message, reports: &reports, soft_bounced: &soft, most: soft_bounces, relay, now };
        Ok(effects(&known, &event.report))
    }

    async fn carry_out(
        tx: &mut D::Connection,
        message: &MessageRecord,
        locked: LockedMessage,
        effects: &Effects,
        occurred_at: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        if effects.taken {
            Self::record_taken(tx, message.id, locked, now).await?;
        }
        if let Some((state, why)) = &effects.state {
            let report = query(REPORT_MESSAGE).bind(message.id.to_string());
            report.bind(state.name().to_owned()).bind(why.clone()).execute(&mut *tx).await?;
        }
        if effects.forgiven {
            let forgive = query(LIFT).bind(message.origin.tenant().to_owned());
            let address = folded(&message.envelope_to);
            let forgive = forgive.bind(address.clone()).bind(Reason::SoftBounces.name().to_owned()).bind(address);
            forgive.execute(&mut *tx).await?;
        }
        if let Some(suppression) = &effects.suppress {
            Self::write_suppression(&mut *tx, suppression).await?;
        }
        if let Some((key, entry)) = &effects.withdraw {
            Self::change_consent(tx, key, false, occurred_at, entry).await?;
        }
        Ok(())
    }

    /// The relay has the mail, so that no further attempt is made: as after a late success.
    async fn record_taken(
        connection: &mut D::Connection,
        message: Uuid,
        locked: LockedMessage,
        now: Timestamp,
    ) -> Result<()> {
        let id = message.to_string();
        let at = query_as(TAKEN_AT).bind(id.clone()).fetch_one(&mut *connection).await?;
        // It refused every attempt that it was given.
        let (Some(at),): (Option<i64>,) = at else { return Ok(()) };
        for statement in [SENT_DIGEST, SENT_MESSAGE] {
            query(statement).bind(id.clone()).bind(at).execute(&mut *connection).await?;
        }
        if locked.closed.is_none() {
            let sent = Closed { outcome: Outcome::Sent, why: String::new() };
            Self::fence(&mut *connection, &id, now).await?;
            Self::end(connection, message, &sent, false, now).await?;
        }
        Ok(())
    }

    async fn taken_by(connection: &mut D::Connection, message: Uuid) -> Result<Option<String>> {
        let row = query_as(TAKEN_BY).bind(message.to_string()).fetch_optional(connection).await?;
        Ok(row.map(|(relay,): (String,)| relay))
    }

    async fn reports(connection: &mut D::Connection, message: Uuid) -> Result<Vec<ReportRecord>> {
        let statement = query_as(DELIVERY_EVENTS).bind(message.to_string());
        let rows: Vec<ReportRow> = statement.fetch_all(connection).await?;
        rows.into_iter().map(ReportRecord::try_from).collect()
    }
}

/// The event, without the provider's words if the recipient was erased: they may name the recipient.
fn spoken_of(message: &MessageRecord, event: &Reported) -> Reported {
    let mut event = event.clone();
    if message.envelope_to.starts_with(PREFIX) {
        event.report.diagnostic = String::new();
        event.report.url = None;
    }
    event
}

row! {
/// Columns of [`DELIVERY_EVENTS`].
pub struct ReportRow {
    kind: String,
    bounce: Option<String>,
    status: Option<Status>,
    diagnostic: String,
    relay: Option<String>,
    event_id: Option<String>,
    occurred_at: Timestamp,
    received_at: Timestamp,
    never_sent: bool,
    machine: Option<String>,
    url: Option<String>,
}
}

impl TryFrom<ReportRow> for ReportRecord {
    type Error = Error;

    fn try_from(row: ReportRow) -> Result<Self> {
        let ReportRow { status, diagnostic, relay, event_id, occurred_at, received_at, never_sent, url, .. } = row;
        let is = |kind: &Kind| kind.name() == row.kind && kind.bounce().map(Bounce::name) == row.bounce.as_deref();
        let kind = Kind::ALL.into_iter().find(is);
        let kind = kind.ok_or_else(|| Error::Broken(unknown("kind of delivery event", &row.kind).to_string()))?;
        let machine = row.machine.map(|machine| machine == YES);
        let report = Report { kind, status, diagnostic, occurred_at, never_sent, machine, url };
        Ok(Self { report, relay, event_id, received_at })
    }
}

impl Column for Status {
    type Stored = String;

    fn read(text: String) -> std::result::Result<Self, BoxDynError> {
        text.parse().map_err(|()| format!("{text:?} is not an enhanced status code").into())
    }
}
