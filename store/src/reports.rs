//! Records delivery events, each once and with all its effects in one transaction (rule 43).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::{error::BoxDynError, query, query_as};
use tidings_model::{
    EmailAddress,
    breaker::DeliveryEvidence,
    delivery_events::{
        BounceKind, CheckedDeliveryEvent, DeliveryReport, EffectContext, EnhancedStatus, EventEffect, EventRejection,
        LetterEmitted, MessageReference, ReportKind, ReportRecord, RequestRecorded, TenantEvidence, WebhookRequest,
        delivery_effects,
    },
    records::{AuditEntry, MessageOrigin, MessageRecord, SuppressionReason, WebhookLetterId},
    report::CountedReport,
    window::{DigestOutcome, WindowEnd},
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    attempts::{SENT_DIGEST, SENT_MESSAGE},
    digest::{LockedMessage, MESSAGE_RECORD, MESSAGE_RECORDS},
    pseudonym::PREFIX,
    sql::{
        SqlStore, calls,
        columns::{ColumnValue, column, record, unknown_word},
        dialect::{Dialect, StatementVariants},
        to_json,
    },
    suppressions::LIFT,
};

calls! {
    pub trait ReportStore {
        /// Records a delivery event once, with its
        /// [effects](tidings_model::delivery_events::delivery_effects), in one transaction. `soft_bounces`
        /// consecutive soft bounces suppress an address. Returns `None` if the tenant has no such message, or
        /// the reporting relay was not given it.
        #[span(tenant = event.tenant, relay = event.relay)]
        async fn put_delivery_event(&self, event: &CheckedDeliveryEvent, soft_bounces: u32, now: Timestamp)
        -> Result<Option<EventEffect>>;

        /// Records a webhook request in one transaction: its token, events with effects, and unusable parts.
        /// Safe to repeat. Rejects a token used with another body.
        #[span(relay = request.relay, events = request.events.len())]
        async fn put_webhook_request(
            &self,
            request: &WebhookRequest,
            soft_bounces: u32,
            now: Timestamp,
        ) -> Result<RequestRecorded>;

        /// Records a webhook dead letter's events with their effects, marks it as emitted, and audits this
        /// for each message, in one transaction. Only the first call counts.
        #[span(letter = %id)]
        async fn emit_webhook_letter(
            &self,
            id: &WebhookLetterId,
            events: &[CheckedDeliveryEvent],
            soft_bounces: u32,
            entry: &AuditEntry,
        ) -> Result<LetterEmitted>;

        /// Forgets the recipient's last open and click for the digest's key, because they object to tracking.
        #[span(tenant, message = %message)]
        async fn forget_reading(&self, tenant: &str, message: Uuid) -> Result<()>;

        /// Counts a message as unsubscribed, because its recipient used its link. Safe to repeat; a deleted
        /// message is not counted.
        #[span(message = %message)]
        async fn count_unsubscribed(&self, message: Uuid) -> Result<()>;

        #[span(message = %message)]
        async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>>;
    }
}

/// `$1` is a list of [tenant, address in lower case]. Locks each in this order, even without a row. Lock
/// messages first.
pub const LOCK_ADDRESSES: StatementVariants = StatementVariants {
    sqlite: "SELECT $1",
    postgres: "SELECT pg_advisory_xact_lock(hashtextextended(value->>0 || ' ' || (value->>1), 0))
               FROM jsonb_array_elements($1::jsonb)",
};

/// `$1` names of the reporting relay, each in its own list; ignored if `$2` is true, because then no relay
/// reports. `$3` message, `$4` `Message-ID`, `$5` tenant; each may be empty. Only finds messages given to a
/// relay: returns 1 if it was this relay, 0 if another.
pub const REPORTED_MESSAGE: &str = "
SELECT m.id, (SELECT CAST(MAX(CASE WHEN $2 OR a.relay IN (SELECT value->>0 FROM {each}) THEN 1 ELSE 0 END) AS BIGINT)
              FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL) AS is_of_relay
FROM messages m
WHERE (m.id = $3 OR m.message_id = $4) AND (m.tenant = $5 OR $5 = '')
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL) LIMIT 2";

/// `$1` and `$2` as above, `$3` the relay's id, `$4` tenant or empty. Two relays may have assigned the same
/// id.
pub const MESSAGE_OF_RELAY_ID: &str = "
SELECT DISTINCT a.message, CAST(1 AS BIGINT) AS is_of_relay FROM attempts a
WHERE a.relay_id = $3 AND a.past_the_dot_at IS NOT NULL AND (a.tenant = $4 OR $4 = '')
  AND ($2 OR a.relay IN (SELECT value->>0 FROM {each})) LIMIT 2";

pub const PUT_DELIVERY_EVENT: &str = "
INSERT INTO delivery_events (message, event, tenant, address_lower, kind, bounce, status, diagnostic, relay, event_id,
                             occurred_at, received_at, never_sent, machine, url)
VALUES ($1, $2, $3, $4, $5, NULLIF($6, ''), NULLIF($7, ''), $8, NULLIF($9, ''), NULLIF($10, ''), $11, $12, $13,
        NULLIF($14, ''), NULLIF($15, ''))
ON CONFLICT DO NOTHING";

pub const DELIVERY_EVENTS: &str = "
SELECT kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at, never_sent, machine, url
FROM delivery_events WHERE message = $1 ORDER BY occurred_at, event";

pub const SOFT_BOUNCED: &str = "
SELECT MIN(e.occurred_at) AS first_at FROM delivery_events e
WHERE e.tenant = $1 AND e.address_lower = $2 AND e.bounce = 'soft' AND NOT e.never_sent
  AND e.occurred_at > COALESCE((SELECT MAX(d.occurred_at) FROM delivery_events d
                                WHERE d.tenant = $1 AND d.address_lower = $2 AND d.kind = 'delivered'), -1)
  AND NOT EXISTS (SELECT 1 FROM delivery_events d WHERE d.message = e.message AND d.kind = 'delivered')
GROUP BY e.message ORDER BY first_at LIMIT $3";

/// The earliest dot among attempts not known to be refused.
pub const TAKEN_AT: &str = "
SELECT MIN(past_the_dot_at) FROM attempts
WHERE message = $1 AND (class IS NULL OR class IN ('sent', 'ambiguous', 'fenced', 'cancelled'))";

/// `$1` and `$2` as above, `$3` message. The latest attempt the relay accepted, or else the latest not known
/// to be refused.
pub const TAKEN_BY: &str = "
SELECT relay FROM attempts
WHERE message = $3 AND past_the_dot_at IS NOT NULL AND ($2 OR relay IN (SELECT value->>0 FROM {each}))
  AND (class IS NULL OR class IN ('sent', 'ambiguous', 'fenced', 'cancelled') OR late_class = 'sent')
ORDER BY CASE WHEN class = 'sent' OR late_class = 'sent' THEN 0 ELSE 1 END, number DESC LIMIT 1";

const YES: &str = "yes";
const NO: &str = "no";

pub const REPORT_MESSAGE: &str = "UPDATE messages SET state = $2, why = $3 WHERE id = $1 AND closed_at IS NOT NULL";

impl<D: Dialect> SqlStore<D> {
    async fn put_delivery_event(
        &self,
        event: &CheckedDeliveryEvent,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Option<EventEffect>> {
        let mut tx = self.begin_write().await?;
        let Ok(id) = Self::find_reported(&mut tx, event).await? else { return Ok(None) };
        let held = Self::lock_reported(&mut tx, &[id].into()).await?;
        let recorded = Self::record_about(&mut tx, &held[&id], &[event], soft_bounces, now).await?;
        tx.commit().await?;
        Ok(recorded.into_iter().next())
    }

    async fn put_webhook_request(
        &self,
        request: &WebhookRequest,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<RequestRecorded> {
        let mut tx = self.begin_write().await?;
        let recorded = Self::record_request(&mut tx, request, soft_bounces, now).await?;
        tx.commit().await?;
        Ok(recorded)
    }

    async fn emit_webhook_letter(
        &self,
        id: &WebhookLetterId,
        events: &[CheckedDeliveryEvent],
        soft_bounces: u32,
        entry: &AuditEntry,
    ) -> Result<LetterEmitted> {
        let mut tx = self.begin_write().await?;
        let emitted = Self::emit_letter(&mut tx, id, events, soft_bounces, entry).await?;
        if matches!(emitted, LetterEmitted::Now(_)) {
            tx.commit().await?;
        }
        Ok(emitted)
    }

    async fn forget_reading(&self, tenant: &str, message: Uuid) -> Result<()> {
        Self::delete_reading(&mut *self.writer.acquire().await?, tenant, message).await
    }

    async fn count_unsubscribed(&self, message: Uuid) -> Result<()> {
        Self::mark_reported(&mut *self.writer.acquire().await?, message, [CountedReport::Unsubscribed]).await
    }

    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>> {
        Self::reports(&mut *self.reader.acquire().await?, message).await
    }
}

impl<D: Dialect> SqlStore<D> {
    /// Locks the messages, then their addresses, each in a fixed order. Otherwise two requests for the same
    /// messages could deadlock, and two messages to one address bouncing at once would miss each other.
    pub(super) async fn lock_reported(
        tx: &mut D::Connection,
        messages: &BTreeSet<Uuid>,
    ) -> Result<BTreeMap<Uuid, LockedEnvelope>> {
        if messages.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut locked = BTreeMap::new();
        for message in messages {
            locked.insert(*message, Self::lock_message(&mut *tx, *message).await?);
        }
        let ids: Vec<_> = messages.iter().map(|id| [id.to_string()]).collect();
        let rows = query(Self::expand_each(MESSAGE_RECORDS)).bind(to_json(&ids)?).try_map(Self::to_record);
        let rows: Vec<MessageRecord> = rows.fetch_all(&mut *tx).await?;
        let held = rows.into_iter().filter_map(|message| {
            let locked = locked.remove(&message.id)?;
            Some((message.id, LockedEnvelope { message, locked }))
        });
        let held: BTreeMap<_, _> = held.collect();
        if let Some(id) = locked.keys().next() {
            return Err(StoreError::Broken(format!("message {id} is not in the outbox")));
        }
        let addresses: BTreeSet<_> = held.values().map(|held| held.address()).collect();
        query(D::pick_variant(LOCK_ADDRESSES)).bind(to_json(&addresses)?).execute(tx).await?;
        Ok(held)
    }

    /// Records events about one message, with their effects, whose inputs are read once.
    pub(super) async fn record_about(
        tx: &mut D::Connection,
        held: &LockedEnvelope,
        events: &[&CheckedDeliveryEvent],
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Vec<EventEffect>> {
        let message = &held.message;
        let (mut recorded, mut new) = (Vec::with_capacity(events.len()), Vec::new());
        for event in events {
            let event = spoken_of(message, event);
            let withdrawn = match (&message.origin, event.report.kind) {
                (MessageOrigin::Digest(key), ReportKind::Unsubscribed) if !is_erased(message) => Some(key.clone()),
                _ => None,
            };
            let again = !Self::insert_report(&mut *tx, message, &event, now).await?;
            if !again {
                Self::put_reading(&mut *tx, message, &event.report).await?;
                new.push((recorded.len(), event));
            }
            recorded.push(EventEffect { message: message.id, again, withdrawn, against: None });
        }
        if new.is_empty() {
            return Ok(recorded);
        }
        Self::mark_reported(
            &mut *tx,
            message.id,
            new.iter().map(|(_, event)| CountedReport::from_report(&event.report)),
        )
        .await?;
        Self::carry_out(&mut *tx, held, &decisive_events(new.iter().map(|(_, event)| event)), soft_bounces, now)
            .await?;
        let evidence: Vec<_> =
            new.iter().filter_map(|(at, event)| Some((*at, relay_evidence(&event.report)?))).collect();
        let relay = match evidence.first() {
            Some((at, _)) => Self::taken_by(tx, message.id, events[*at]).await?,
            None => None,
        };
        for (at, evidence) in evidence {
            let tenant = message.origin.tenant().to_owned();
            recorded[at].against = relay.clone().map(|relay| TenantEvidence { relay, tenant, evidence });
        }
        Ok(recorded)
    }

    pub(super) async fn reported_message(connection: &mut D::Connection, id: Uuid) -> Result<MessageRecord> {
        Ok(query(MESSAGE_RECORD).bind(id.to_string()).try_map(Self::to_record).fetch_one(connection).await?)
    }

    /// Finds the message by the first matching reference. An event that could be about two messages counts as
    /// unknown.
    pub(super) async fn find_reported(
        connection: &mut D::Connection,
        event: &CheckedDeliveryEvent,
    ) -> Result<std::result::Result<Uuid, EventRejection>> {
        let tenant = event.tenant.clone().unwrap_or_default();
        for which in &event.of {
            let (statement, ids) = match which {
                MessageReference::Id(id) => (REPORTED_MESSAGE, vec![id.to_string(), String::new()]),
                MessageReference::MessageId(message_id) => (REPORTED_MESSAGE, vec![String::new(), message_id.clone()]),
                MessageReference::RelayId(relay_id) => (MESSAGE_OF_RELAY_ID, vec![relay_id.clone()]),
            };
            let statement =
                query_as(Self::expand_each(statement)).bind(relay_names(event)?).bind(event.relay.is_none());
            let statement = ids.into_iter().fold(statement, |statement, id| statement.bind(id));
            let found: Vec<(String, i64)> = statement.bind(tenant.clone()).fetch_all(&mut *connection).await?;
            match found.as_slice() {
                [] => {}
                [(_, 0)] => return Ok(Err(EventRejection::OtherRelay)),
                [(id, _)] => {
                    let broken = |_| StoreError::Broken(format!("a message id in the store: {id:?}"));
                    return id.parse().map(Ok).map_err(broken);
                }
                _ => break,
            }
        }
        Ok(Err(EventRejection::UnknownMessage))
    }

    async fn insert_report(
        connection: &mut D::Connection,
        message: &MessageRecord,
        event: &CheckedDeliveryEvent,
        now: Timestamp,
    ) -> Result<bool> {
        let DeliveryReport { kind, status, diagnostic, occurred_at, never_sent, machine, url } = &event.report;
        let machine = machine.map_or("", |machine| if machine { YES } else { NO });
        let insert = query(PUT_DELIVERY_EVENT)
            .bind(message.id.to_string())
            .bind(event.report.report_id(message.id).to_string())
            .bind(message.origin.tenant().to_owned())
            .bind(EmailAddress::normalize_address(&message.envelope_to))
            .bind(kind.name().to_owned())
            .bind(kind.bounce().map_or("", BounceKind::name).to_owned())
            .bind(status.map(|status| status.to_string()).unwrap_or_default())
            .bind(diagnostic.clone())
            .bind(event.relay.clone().unwrap_or_default())
            .bind(event.event_id.clone().unwrap_or_default())
            .bind(occurred_at.as_millisecond())
            .bind(now.as_millisecond())
            .bind(*never_sent)
            .bind(machine.to_owned())
            .bind(url.clone().unwrap_or_default());
        Ok(D::changed_rows(&insert.execute(connection).await?) > 0)
    }

    async fn carry_out(
        tx: &mut D::Connection,
        held: &LockedEnvelope,
        events: &[&CheckedDeliveryEvent],
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let LockedEnvelope { message, locked } = held;
        let [tenant, address] = held.address();
        let soft = query_as(SOFT_BOUNCED).bind(tenant.clone()).bind(address.clone()).bind(i64::from(soft_bounces));
        let soft: Vec<(i64,)> = soft.fetch_all(&mut *tx).await?;
        let soft = soft
            .into_iter()
            .map(|(at,)| <Timestamp as ColumnValue>::read(at).map_err(|error| StoreError::Broken(error.to_string())))
            .collect::<Result<Vec<_>>>()?;
        let reports = Self::reports(&mut *tx, message.id).await?;
        let reports: Vec<_> = reports.into_iter().map(|record| record.report).collect();
        let effects = events.iter().map(|event| {
            let relay = event.relay.as_deref();
            let known =
                EffectContext { message, reports: &reports, soft_bounced: &soft, most: soft_bounces, relay, now };
            (delivery_effects(&known, &event.report), event.report.occurred_at)
        });
        let effects: Vec<_> = effects.collect();
        if effects.iter().any(|(effects, _)| effects.taken) {
            Self::record_taken(&mut *tx, message.id, locked, now).await?;
        }
        if let Some((state, why)) = effects.iter().find_map(|(effects, _)| effects.state.as_ref()) {
            let report = query(REPORT_MESSAGE).bind(message.id.to_string());
            report.bind(state.name().to_owned()).bind(why.clone()).execute(&mut *tx).await?;
        }
        for (effects, occurred_at) in &effects {
            if effects.forgiven {
                let forgive = query(D::pick_variant(LIFT)).bind(tenant.clone()).bind(to_json(&[&address])?);
                let forgive = forgive.bind(SuppressionReason::SoftBounces.name().to_owned());
                forgive.execute(&mut *tx).await?;
            }
            if let Some(suppression) = &effects.suppress {
                Self::write_suppression(&mut *tx, suppression).await?;
            }
            if let Some((key, entry)) = effects.withdraw.as_ref().filter(|_| !is_erased(message)) {
                Self::change_consent(&mut *tx, key, false, *occurred_at, entry).await?;
            }
        }
        Ok(())
    }

    /// The relay has the email, so we make no further attempt, as after a late success.
    async fn record_taken(
        connection: &mut D::Connection,
        message: Uuid,
        locked: &LockedMessage,
        now: Timestamp,
    ) -> Result<()> {
        if locked.sent && locked.closed.is_some() {
            return Ok(());
        }
        let id = message.to_string();
        let at = query_as(TAKEN_AT).bind(id.clone()).fetch_one(&mut *connection).await?;
        let (Some(at),): (Option<i64>,) = at else { return Ok(()) };
        for statement in [SENT_DIGEST, SENT_MESSAGE] {
            query(statement).bind(id.clone()).bind(at).execute(&mut *connection).await?;
        }
        if locked.closed.is_none() {
            let sent = WindowEnd { outcome: DigestOutcome::Sent, why: String::new() };
            Self::fence_attempt(&mut *connection, &id, now).await?;
            Self::apply_end(connection, message, &sent, false, now).await?;
        }
        Ok(())
    }

    async fn taken_by(
        connection: &mut D::Connection,
        message: Uuid,
        event: &CheckedDeliveryEvent,
    ) -> Result<Option<String>> {
        let taken = query_as(Self::expand_each(TAKEN_BY)).bind(relay_names(event)?).bind(event.relay.is_none());
        let row = taken.bind(message.to_string()).fetch_optional(connection).await?;
        Ok(row.map(|(relay,): (String,)| relay))
    }

    async fn reports(connection: &mut D::Connection, message: Uuid) -> Result<Vec<ReportRecord>> {
        let reports = query(DELIVERY_EVENTS).bind(message.to_string()).try_map(Self::to_record);
        Ok(reports.fetch_all(connection).await?)
    }
}

pub(super) struct LockedEnvelope {
    pub message: MessageRecord,
    locked: LockedMessage,
}

impl LockedEnvelope {
    fn address(&self) -> [String; 2] {
        [self.message.origin.tenant().to_owned(), EmailAddress::normalize_address(&self.message.envelope_to)]
    }
}

/// The first and last event of each kind with effects, by time. Those in between have no effect: a
/// suppression uses the first one's time, and a preference changed after the first is only overridden by the
/// last.
fn decisive_events<'a>(events: impl Iterator<Item = &'a CheckedDeliveryEvent>) -> Vec<&'a CheckedDeliveryEvent> {
    let mut kinds = BTreeMap::new();
    for event in events {
        let DeliveryReport { kind, never_sent, occurred_at, .. } = &event.report;
        if matches!(kind, ReportKind::Deferred | ReportKind::Opened | ReportKind::Clicked) {
            continue;
        }
        let kind = (kind.name(), kind.bounce().map(BounceKind::name), *never_sent);
        let at = (*occurred_at, event.report.to_string());
        let (first, last) = kinds.entry(kind).or_insert_with(|| ((at.clone(), event), (at.clone(), event)));
        if at < first.0 {
            *first = (at, event);
        } else if at > last.0 {
            *last = (at, event);
        }
    }
    let mut decisive: Vec<_> = kinds.into_values().flat_map(|(first, last)| [first, last]).collect();
    decisive.sort_by(|(a, _), (b, _)| a.cmp(b));
    decisive.into_iter().map(|(_, event)| event).collect()
}

/// The event as evidence against the relay. A message held back by the provider reached no server, so it is
/// none.
fn relay_evidence(report: &DeliveryReport) -> Option<DeliveryEvidence> {
    match report.kind {
        _ if report.never_sent => None,
        ReportKind::Bounced(BounceKind::Hard) => Some(DeliveryEvidence::Bounced),
        ReportKind::Complained => Some(DeliveryEvidence::Complained),
        _ => None,
    }
}

fn relay_names(event: &CheckedDeliveryEvent) -> Result<String> {
    to_json(&event.relay.iter().chain(&event.reports_for).map(|name| [name]).collect::<Vec<_>>())
}

/// Checks the message for an erasure, because its user id may now belong to another person.
pub(super) fn is_erased(message: &MessageRecord) -> bool {
    message.envelope_to.starts_with(PREFIX)
}

/// The event; if the recipient was erased, without the provider's text, which may name them.
fn spoken_of(message: &MessageRecord, event: &CheckedDeliveryEvent) -> CheckedDeliveryEvent {
    let mut event = event.clone();
    if is_erased(message) {
        event.report.diagnostic = String::new();
        event.report.url = None;
    }
    event
}

record!(row => ReportRecord { report: DeliveryReport::read::<D>(row)?, relay, event_id, received_at });

record!(row => DeliveryReport {
    kind: read_kind::<D>(row)?,
    status,
    diagnostic,
    occurred_at,
    never_sent,
    machine: column::<_, Option<String>>(row, "machine")?.map(|machine| machine == YES),
    url,
});

fn read_kind<D: Dialect>(row: &D::Row) -> sqlx::Result<ReportKind> {
    let (name, bounce): (String, Option<String>) = (column(row, "kind")?, column(row, "bounce")?);
    let is = |kind: &ReportKind| kind.name() == name && kind.bounce().map(BounceKind::name) == bounce.as_deref();
    let kind = ReportKind::ALL.into_iter().find(is);
    kind.ok_or_else(|| sqlx::Error::ColumnDecode {
        index: "kind".to_owned(),
        source: unknown_word("kind of delivery event", &name),
    })
}

impl ColumnValue for EnhancedStatus {
    type Stored = String;

    fn read(text: String) -> std::result::Result<Self, BoxDynError> {
        text.parse().map_err(|()| format!("{text:?} is not an enhanced status code").into())
    }
}

// The recipients' last opens and clicks, by key, used by a digest type's `adapt`.

/// Key `$1` to `$3`, `$4` time of a person's open or click, or 0, `$5` time of one that may be a person's.
pub const PUT_READING: &str = "
INSERT INTO readings (tenant, digest_type, user_id, read_at, sign_at) VALUES ($1, $2, $3, NULLIF($4, 0), $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET
    read_at = CASE WHEN readings.read_at IS NULL OR excluded.read_at > readings.read_at
              THEN COALESCE(excluded.read_at, readings.read_at) ELSE readings.read_at END,
    sign_at = CASE WHEN excluded.sign_at > readings.sign_at THEN excluded.sign_at ELSE readings.sign_at END";

pub const FORGET_READING: &str = "
DELETE FROM readings WHERE (tenant, digest_type, user_id) IN
    (SELECT tenant, digest_type, user_id FROM messages
     WHERE id = $2 AND tenant = $1 AND digest_id IS NOT NULL AND erased_at IS NULL)";

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn put_reading(
        connection: &mut D::Connection,
        message: &MessageRecord,
        report: &DeliveryReport,
    ) -> Result<()> {
        let MessageOrigin::Digest(key) = &message.origin else { return Ok(()) };
        let by_a_machine =
            report.machine == Some(true) || !matches!(report.kind, ReportKind::Opened | ReportKind::Clicked);
        if by_a_machine || is_erased(message) {
            return Ok(());
        }
        let at = report.occurred_at.as_millisecond();
        let by_a_person = if report.machine == Some(false) { at } else { 0 };
        let put = query(PUT_READING).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        put.bind(by_a_person).bind(at).execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn delete_reading(connection: &mut D::Connection, tenant: &str, message: Uuid) -> Result<()> {
        let forget = query(FORGET_READING).bind(tenant.to_owned()).bind(message.to_string());
        forget.execute(connection).await?;
        Ok(())
    }
}
