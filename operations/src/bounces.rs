//! Messages that came back: each report with a token that our keys signed becomes a delivery event of the message.

use jiff::Timestamp;
use tidings_mail::bounce::{Content, ParsedReport, Returned};
use tidings_model::{
    Key,
    delivery_events::{DeliveryEvent, Kind, Recorded},
    link_keys::Purpose,
    records::MessageRecord,
    settings::Settings,
};
use tidings_services::delivery_events::{self, Error};
use tidings_store::Store;

/// The effect of a message that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Reports about a message of ours.
    Recorded {
        /// Reports that were not known before.
        new: usize,
        /// Reports that were known.
        again: usize,
        /// The key whose consent a report withdraws; see [`Recorded`].
        withdrawn: Option<Key>,
    },
    /// Reports without a token that one of our keys signed. Anybody can write those: nothing changed.
    Unauthenticated,
    /// Reports about a message that is not in the outbox, or that no relay was given.
    UnknownMessage,
    /// A report without consequences.
    NoNews,
    /// An automatic reply.
    AutoReply,
    /// No report, and no wish to unsubscribe.
    Unrecognized,
}

/// Records the reports of a message that came back, once each.
///
/// # Errors
/// The store cannot answer. Taking the message again is safe.
pub async fn take(
    store: &dyn Store,
    settings: &Settings,
    returned: Returned,
    now: Timestamp,
) -> Result<Taken, tidings_store::Error> {
    let reports = match &returned.content {
        Content::Reports(reports) => reports,
        Content::NoNews => return Ok(Taken::NoNews),
        Content::AutoReply => return Ok(Taken::AutoReply),
        Content::Unrecognized => return leave(store, settings, &returned, now).await,
    };
    let message = match authenticated(Purpose::Report, store, settings, &returned).await? {
        Ok(message) => message,
        Err(taken) => {
            tracing::warn!(id = ?returned.message, ?taken, "a report changes nothing");
            return Ok(taken);
        }
    };
    let (mut new, mut again, mut withdrawn) = (0, 0, None);
    for report in reports {
        match delivery_events::record(store, settings, event(&message, report, now), now).await {
            Ok(recorded) => {
                *(if recorded.again { &mut again } else { &mut new }) += 1;
                withdrawn = withdrawn.or(recorded.withdrawn);
            }
            Err(Error::Store(error)) => return Err(error),
            Err(error @ (Error::Invalid(_) | Error::UnknownMessage)) => {
                tracing::warn!(id = %message.id, %error, "a report is not recorded");
            }
        }
    }
    if new + again == 0 {
        return Ok(Taken::UnknownMessage);
    }
    Ok(Taken::Recorded { new, again, withdrawn })
}

/// Unsubscribes the recipient of a message whose `List-Unsubscribe` named the address that this message came to. What it says does not
/// matter: programs write it.
async fn leave(
    store: &dyn Store,
    settings: &Settings,
    returned: &Returned,
    now: Timestamp,
) -> Result<Taken, tidings_store::Error> {
    let Ok(message) = authenticated(Purpose::Leave, store, settings, returned).await? else {
        return Ok(Taken::Unrecognized);
    };
    let (kind, diagnostic) = (Kind::Unsubscribed, String::new());
    let report = ParsedReport { kind, status: None, diagnostic, recipient: None, occurred_at: Some(now) };
    match delivery_events::record(store, settings, event(&message, &report, now), now).await {
        Ok(Recorded { again, withdrawn, .. }) => {
            Ok(Taken::Recorded { new: usize::from(!again), again: usize::from(again), withdrawn })
        }
        Err(Error::Store(error)) => Err(error),
        Err(Error::Invalid(_) | Error::UnknownMessage) => Ok(Taken::UnknownMessage),
    }
}

/// Finds the message of the first token that is valid for the message's tenant. If there is none, the outbox does not know
/// the messages of the tokens, or nothing proves that the report is real.
async fn authenticated(
    purpose: Purpose,
    store: &dyn Store,
    settings: &Settings,
    returned: &Returned,
) -> Result<Result<MessageRecord, Taken>, tidings_store::Error> {
    let mut taken = if returned.tokens.is_empty() { Taken::Unauthenticated } else { Taken::UnknownMessage };
    for token in &returned.tokens {
        let Some(message) = store.message(token.message()).await? else { continue };
        let keys = settings.link_keys.as_ref();
        if keys.is_some_and(|keys| keys.verify(purpose, message.origin.tenant(), token)) {
            return Ok(Ok(message));
        }
        taken = Taken::Unauthenticated;
    }
    Ok(Err(taken))
}

/// The report as a delivery event. Other servers' clocks may be wrong, so its time lies between the message's and now. The time
/// of a report without one is that of the message, so that a second copy is the same event.
fn event(message: &MessageRecord, report: &ParsedReport, now: Timestamp) -> DeliveryEvent {
    let sent = message.sent_at.unwrap_or(message.created_at);
    let occurred_at = report.occurred_at.unwrap_or(sent).max(message.created_at).min(now);
    DeliveryEvent {
        tenant: Some(message.origin.tenant().to_owned()),
        message: Some(message.id.to_string()),
        status: report.status.map(|status| status.to_string()),
        diagnostic: Some(report.diagnostic.clone()),
        ..DeliveryEvent::new(report.kind.about(report.recipient.as_deref(), &message.envelope_to), occurred_at)
    }
}
