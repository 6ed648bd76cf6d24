//! Delivery events: each is recorded once, with all its effects, in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::{error::BoxDynError, query, query_as};
use tidings_model::{
    EmailAddress,
    breaker::Evidence,
    delivery_events::{
        Against, Bounce, Kind, Known, LetterEmitted, Recorded, Report, ReportRecord, Reported, RequestRecorded, Status,
        Unrecorded, WebhookRequest, Which, effects,
    },
    records::{AuditEntry, MessageRecord, Origin, Reason, WebhookLetterId},
    report::Counted,
    window::{Closed, Outcome},
};
use uuid::Uuid;

use crate::{
    Error, Result,
    attempts::{SENT_DIGEST, SENT_MESSAGE},
    digest::{LockedMessage, MESSAGE_RECORD, MESSAGE_RECORDS},
    pseudonym::PREFIX,
    sql::{
        Sql, calls,
        columns::{Column, column, record, unknown},
        dialect::{Dialect, Variants},
        json,
    },
    suppressions::LIFT,
};

calls! {
    /// Delivery events that providers report.
    pub trait Reports {
        /// Records a delivery event once, and applies its [effects](tidings_model::delivery_events::effects) in the same transaction.
        /// `soft_bounces` consecutive soft bounces suppress an address. Returns `None` if no relay, or not the one that reports, was given
        /// such a message of the tenant.
        #[span(tenant = event.tenant, relay = event.relay)]
        async fn put_delivery_event(&self, event: &Reported, soft_bounces: u32, now: Timestamp)
        -> Result<Option<Recorded>>;

        /// Records everything that a request of a webhook has, in one transaction: its token, its events with their effects, and
        /// what cannot be used. A request that comes again changes nothing. A token that came with another body before refuses the
        /// whole request.
        #[span(relay = request.relay, events = request.events.len())]
        async fn put_webhook_request(
            &self,
            request: &WebhookRequest,
            soft_bounces: u32,
            now: Timestamp,
        ) -> Result<RequestRecorded>;

        /// Records the events of a webhook's dead letter with their effects, marks the letter as emitted, and audits that for each of the
        /// events' messages, in one transaction. The first call counts.
        #[span(letter = %id)]
        async fn emit_webhook_letter(
            &self,
            id: &WebhookLetterId,
            events: &[Reported],
            soft_bounces: u32,
            entry: &AuditEntry,
        ) -> Result<LetterEmitted>;

        /// Forgets when the recipient of a digest last opened or clicked one of its key, because the reader objects to being counted.
        #[span(tenant, message = %message)]
        async fn forget_reading(&self, tenant: &str, message: Uuid) -> Result<()>;

        /// Counts a message as unsubscribed in the report: its recipient used its link. A repeated call changes nothing, and a deleted
        /// message is not counted.
        #[span(message = %message)]
        async fn count_unsubscribed(&self, message: Uuid) -> Result<()>;

        /// Lists the delivery events of a message by the time at which they happened.
        #[span(message = %message)]
        async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>>;
    }
}

/// `$1` is a list of lists: tenant, and address in lower case. Keeps each for the transaction, in the order of the list, whether there
/// is a row of it or not. A message's row comes first.
pub const LOCK_ADDRESSES: Variants = Variants {
    sqlite: "SELECT $1",
    postgres: "SELECT pg_advisory_xact_lock(hashtextextended(value->>0 || ' ' || (value->>1), 0))
               FROM jsonb_array_elements($1::jsonb)",
};

/// `$1` the names of the relay that reports, each in a list of its own; none of them counts if `$2` is true, because no relay reports.
/// `$3` message, `$4` `Message-ID`, `$5` tenant; each may be empty. Only a message that a relay was given can be reported: answers with
/// 1 if it is this one, and with 0 if it is another.
pub const REPORTED_MESSAGE: &str = "
SELECT m.id, (SELECT CAST(MAX(CASE WHEN $2 OR a.relay IN (SELECT value->>0 FROM {each}) THEN 1 ELSE 0 END) AS BIGINT)
              FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL) AS is_of_relay
FROM messages m
WHERE (m.id = $3 OR m.message_id = $4) AND (m.tenant = $5 OR $5 = '')
  AND EXISTS (SELECT 1 FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL) LIMIT 2";

/// `$1` and `$2` as above, `$3` the relay's id, `$4` tenant or empty. Two relays may have given one id.
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

/// `$1` and `$2` as above, `$3` message. The latest attempt that the relay took, or else one that it is not known to have refused.
pub const TAKEN_BY: &str = "
SELECT relay FROM attempts
WHERE message = $3 AND past_the_dot_at IS NOT NULL AND ($2 OR relay IN (SELECT value->>0 FROM {each}))
  AND (class IS NULL OR class IN ('sent', 'ambiguous', 'fenced', 'cancelled') OR late_class = 'sent')
ORDER BY CASE WHEN class = 'sent' OR late_class = 'sent' THEN 0 ELSE 1 END, number DESC LIMIT 1";

const YES: &str = "yes";
const NO: &str = "no";

/// Of one that has an end.
pub const REPORT_MESSAGE: &str = "UPDATE messages SET state = $2, why = $3 WHERE id = $1 AND closed_at IS NOT NULL";

impl<D: Dialect> Sql<D> {
    async fn put_delivery_event(
        &self,
        event: &Reported,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Option<Recorded>> {
        let mut tx = self.write().await?;
        let Ok(id) = Self::find_reported(&mut tx, event).await? else { return Ok(None) };
        let held = Self::hold(&mut tx, &[id].into()).await?;
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
        let mut tx = self.write().await?;
        let recorded = Self::record_request(&mut tx, request, soft_bounces, now).await?;
        tx.commit().await?;
        Ok(recorded)
    }

    async fn emit_webhook_letter(
        &self,
        id: &WebhookLetterId,
        events: &[Reported],
        soft_bounces: u32,
        entry: &AuditEntry,
    ) -> Result<LetterEmitted> {
        let mut tx = self.write().await?;
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
        Self::mark_reported(&mut *self.writer.acquire().await?, message, [Counted::Unsubscribed]).await
    }

    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>> {
        Self::reports(&mut *self.reader.acquire().await?, message).await
    }
}

impl<D: Dialect> Sql<D> {
    /// Locks the messages, and then their addresses, each in one order: two requests about the same messages would otherwise wait for
    /// each other, and two messages to one address that bounce at once would not see each other.
    pub(super) async fn hold(tx: &mut D::Connection, messages: &BTreeSet<Uuid>) -> Result<BTreeMap<Uuid, Held>> {
        if messages.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut locked = BTreeMap::new();
        for message in messages {
            locked.insert(*message, Self::lock_message(&mut *tx, *message).await?);
        }
        let ids: Vec<_> = messages.iter().map(|id| [id.to_string()]).collect();
        let rows = query(Self::each(MESSAGE_RECORDS)).bind(json(&ids)?).try_map(Self::to_record);
        let rows: Vec<MessageRecord> = rows.fetch_all(&mut *tx).await?;
        let held = rows.into_iter().filter_map(|message| {
            let locked = locked.remove(&message.id)?;
            Some((message.id, Held { message, locked }))
        });
        let held: BTreeMap<_, _> = held.collect();
        if let Some(id) = locked.keys().next() {
            return Err(Error::Broken(format!("message {id} is not in the outbox")));
        }
        let addresses: BTreeSet<_> = held.values().map(|held| held.address()).collect();
        query(D::pick(LOCK_ADDRESSES)).bind(json(&addresses)?).execute(tx).await?;
        Ok(held)
    }

    /// Records events about one message, with their effects. What the effects read is read once, however many events there are.
    pub(super) async fn record_about(
        tx: &mut D::Connection,
        held: &Held,
        events: &[&Reported],
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Vec<Recorded>> {
        let message = &held.message;
        let (mut recorded, mut new) = (Vec::with_capacity(events.len()), Vec::new());
        for event in events {
            let event = spoken_of(message, event);
            let withdrawn = match (&message.origin, event.report.kind) {
                (Origin::Digest(key), Kind::Unsubscribed) if !is_erased(message) => Some(key.clone()),
                _ => None,
            };
            let again = !Self::insert_report(&mut *tx, message, &event, now).await?;
            if !again {
                Self::put_reading(&mut *tx, message, &event.report).await?;
                new.push((recorded.len(), event));
            }
            recorded.push(Recorded { message: message.id, again, withdrawn, against: None });
        }
        if new.is_empty() {
            return Ok(recorded);
        }
        Self::mark_reported(&mut *tx, message.id, new.iter().map(|(_, event)| Counted::of(&event.report))).await?;
        Self::carry_out(&mut *tx, held, &decisive(new.iter().map(|(_, event)| event)), soft_bounces, now).await?;
        let evidence: Vec<_> = new.iter().filter_map(|(at, event)| Some((*at, evidence(&event.report)?))).collect();
        let relay = match evidence.first() {
            Some((at, _)) => Self::taken_by(tx, message.id, events[*at]).await?,
            None => None,
        };
        for (at, evidence) in evidence {
            let tenant = message.origin.tenant().to_owned();
            recorded[at].against = relay.clone().map(|relay| Against { relay, tenant, evidence });
        }
        Ok(recorded)
    }

    pub(super) async fn reported_message(connection: &mut D::Connection, id: Uuid) -> Result<MessageRecord> {
        Ok(query(MESSAGE_RECORD).bind(id.to_string()).try_map(Self::to_record).fetch_one(connection).await?)
    }

    /// Finds the message by the first reference that anything has. An event that could be about two messages is about neither.
    pub(super) async fn find_reported(
        connection: &mut D::Connection,
        event: &Reported,
    ) -> Result<std::result::Result<Uuid, Unrecorded>> {
        let tenant = event.tenant.clone().unwrap_or_default();
        for which in &event.of {
            let (statement, ids) = match which {
                Which::Id(id) => (REPORTED_MESSAGE, vec![id.to_string(), String::new()]),
                Which::MessageId(message_id) => (REPORTED_MESSAGE, vec![String::new(), message_id.clone()]),
                Which::RelayId(relay_id) => (MESSAGE_OF_RELAY_ID, vec![relay_id.clone()]),
            };
            let statement = query_as(Self::each(statement)).bind(names(event)?).bind(event.relay.is_none());
            let statement = ids.into_iter().fold(statement, |statement, id| statement.bind(id));
            let found: Vec<(String, i64)> = statement.bind(tenant.clone()).fetch_all(&mut *connection).await?;
            match found.as_slice() {
                [] => {}
                [(_, 0)] => return Ok(Err(Unrecorded::OtherRelay)),
                [(id, _)] => {
                    let broken = |_| Error::Broken(format!("a message id in the store: {id:?}"));
                    return id.parse().map(Ok).map_err(broken);
                }
                _ => break,
            }
        }
        Ok(Err(Unrecorded::UnknownMessage))
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
            .bind(EmailAddress::folded(&message.envelope_to))
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

    /// Carries out the effects of new events about one message.
    async fn carry_out(
        tx: &mut D::Connection,
        held: &Held,
        events: &[&Reported],
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let Held { message, locked } = held;
        let [tenant, address] = held.address();
        let soft = query_as(SOFT_BOUNCED).bind(tenant.clone()).bind(address.clone()).bind(i64::from(soft_bounces));
        let soft: Vec<(i64,)> = soft.fetch_all(&mut *tx).await?;
        let soft = soft
            .into_iter()
            .map(|(at,)| <Timestamp as Column>::read(at).map_err(|error| Error::Broken(error.to_string())))
            .collect::<Result<Vec<_>>>()?;
        let reports = Self::reports(&mut *tx, message.id).await?;
        let reports: Vec<_> = reports.into_iter().map(|record| record.report).collect();
        let effects = events.iter().map(|event| {
            let relay = event.relay.as_deref();
            let known = Known { message, reports: &reports, soft_bounced: &soft, most: soft_bounces, relay, now };
            (effects(&known, &event.report), event.report.occurred_at)
        });
        let effects: Vec<_> = effects.collect();
        if effects.iter().any(|(effects, _)| effects.taken) {
            Self::record_taken(&mut *tx, message.id, locked, now).await?;
        }
        // All of them say the same state: that of all reports.
        if let Some((state, why)) = effects.iter().find_map(|(effects, _)| effects.state.as_ref()) {
            let report = query(REPORT_MESSAGE).bind(message.id.to_string());
            report.bind(state.name().to_owned()).bind(why.clone()).execute(&mut *tx).await?;
        }
        for (effects, occurred_at) in &effects {
            if effects.forgiven {
                let forgive = query(D::pick(LIFT)).bind(tenant.clone()).bind(json(&[&address])?);
                let forgive = forgive.bind(Reason::SoftBounces.name().to_owned());
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

    /// The relay has the mail, so that no further attempt is made: as after a late success.
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

    async fn taken_by(connection: &mut D::Connection, message: Uuid, event: &Reported) -> Result<Option<String>> {
        let taken = query_as(Self::each(TAKEN_BY)).bind(names(event)?).bind(event.relay.is_none());
        let row = taken.bind(message.to_string()).fetch_optional(connection).await?;
        Ok(row.map(|(relay,): (String,)| relay))
    }

    async fn reports(connection: &mut D::Connection, message: Uuid) -> Result<Vec<ReportRecord>> {
        let reports = query(DELIVERY_EVENTS).bind(message.to_string()).try_map(Self::to_record);
        Ok(reports.fetch_all(connection).await?)
    }
}

/// A message that is ours until the transaction ends, and its address too.
pub(super) struct Held {
    pub message: MessageRecord,
    locked: LockedMessage,
}

impl Held {
    /// Tenant, and address in lower case.
    fn address(&self) -> [String; 2] {
        [self.message.origin.tenant().to_owned(), EmailAddress::folded(&self.message.envelope_to)]
    }
}

/// The first and the last event of each kind that has effects, in the order of their times. What happened between them has no effect
/// of its own: a suppression has the time of the first, and a choice made after the first counts until the last.
fn decisive<'a>(events: impl Iterator<Item = &'a Reported>) -> Vec<&'a Reported> {
    let mut kinds = BTreeMap::new();
    for event in events {
        let Report { kind, never_sent, occurred_at, .. } = &event.report;
        if matches!(kind, Kind::Deferred | Kind::Opened | Kind::Clicked) {
            continue;
        }
        let kind = (kind.name(), kind.bounce().map(Bounce::name), *never_sent);
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

/// What an event says against the relay. A message that the provider kept back met no server, so that it says nothing about the mail
/// that the relay takes.
fn evidence(report: &Report) -> Option<Evidence> {
    match report.kind {
        _ if report.never_sent => None,
        Kind::Bounced(Bounce::Hard) => Some(Evidence::Bounced),
        Kind::Complained => Some(Evidence::Complained),
        _ => None,
    }
}

/// The names under which the relay that reports may have had the attempt, each in a list of its own.
fn names(event: &Reported) -> Result<String> {
    json(&event.relay.iter().chain(&event.reports_for).map(|name| [name]).collect::<Vec<_>>())
}

/// Reports if the recipient was erased. The message's id of a user may be that of the next person.
pub(super) fn is_erased(message: &MessageRecord) -> bool {
    message.envelope_to.starts_with(PREFIX)
}

/// The event, without the provider's words if the recipient was erased: they may name the recipient.
fn spoken_of(message: &MessageRecord, event: &Reported) -> Reported {
    let mut event = event.clone();
    if is_erased(message) {
        event.report.diagnostic = String::new();
        event.report.url = None;
    }
    event
}

record!(row => ReportRecord { report: Report::read::<D>(row)?, relay, event_id, received_at });

record!(row => Report {
    kind: kind::<D>(row)?,
    status,
    diagnostic,
    occurred_at,
    never_sent,
    machine: column::<_, Option<String>>(row, "machine")?.map(|machine| machine == YES),
    url,
});

fn kind<D: Dialect>(row: &D::Row) -> sqlx::Result<Kind> {
    let (name, bounce): (String, Option<String>) = (column(row, "kind")?, column(row, "bounce")?);
    let is = |kind: &Kind| kind.name() == name && kind.bounce().map(Bounce::name) == bounce.as_deref();
    let kind = Kind::ALL.into_iter().find(is);
    kind.ok_or_else(|| sqlx::Error::ColumnDecode {
        index: "kind".to_owned(),
        source: unknown("kind of delivery event", &name),
    })
}

impl Column for Status {
    type Stored = String;

    fn read(text: String) -> std::result::Result<Self, BoxDynError> {
        text.parse().map_err(|()| format!("{text:?} is not an enhanced status code").into())
    }
}

// The last openings and clicks of recipients, by key. The digest type's `adapt` asks for them.

/// Key `$1` to `$3`, `$4` the time of a person's, or 0, `$5` the time of one that may be a person's.
pub const PUT_READING: &str = "
INSERT INTO readings (tenant, digest_type, user_id, read_at, sign_at) VALUES ($1, $2, $3, NULLIF($4, 0), $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET
    read_at = CASE WHEN readings.read_at IS NULL OR excluded.read_at > readings.read_at
              THEN COALESCE(excluded.read_at, readings.read_at) ELSE readings.read_at END,
    sign_at = CASE WHEN excluded.sign_at > readings.sign_at THEN excluded.sign_at ELSE readings.sign_at END";

/// `$1` tenant, `$2` message.
pub const FORGET_READING: &str = "
DELETE FROM readings WHERE (tenant, digest_type, user_id) IN
    (SELECT tenant, digest_type, user_id FROM messages
     WHERE id = $2 AND tenant = $1 AND digest_id IS NOT NULL AND erased_at IS NULL)";

impl<D: Dialect> Sql<D> {
    /// Keeps the time of an opening or a click of a digest, unless a machine made it or the recipient was erased.
    pub(crate) async fn put_reading(
        connection: &mut D::Connection,
        message: &MessageRecord,
        report: &Report,
    ) -> Result<()> {
        let Origin::Digest(key) = &message.origin else { return Ok(()) };
        let by_a_machine = report.machine == Some(true) || !matches!(report.kind, Kind::Opened | Kind::Clicked);
        if by_a_machine || is_erased(message) {
            return Ok(());
        }
        let at = report.occurred_at.as_millisecond();
        let by_a_person = if report.machine == Some(false) { at } else { 0 };
        let put = query(PUT_READING).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        put.bind(by_a_person).bind(at).execute(connection).await?;
        Ok(())
    }

    /// Forgets what the recipient of a message opened and clicked of the message's key.
    pub(crate) async fn delete_reading(connection: &mut D::Connection, tenant: &str, message: Uuid) -> Result<()> {
        let forget = query(FORGET_READING).bind(tenant.to_owned()).bind(message.to_string());
        forget.execute(connection).await?;
        Ok(())
    }
}
