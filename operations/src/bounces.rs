//! Turns each report in a returned message into a delivery event, if we signed its token.

use jiff::Timestamp;
use tidings_mail::bounce::{ParsedReport, ReturnedContent, ReturnedMessage};
use tidings_model::{
    Key,
    delivery_events::{DeliveryEvent, EventEffect, ReportKind},
    link_keys::TokenPurpose,
    records::MessageRecord,
    settings::Settings,
};
use tidings_services::delivery_events::{self, DeliveryEventError};
use tidings_store::Store;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BounceOutcome {
    Recorded {
        new: usize,
        again: usize,
        /// The key to wake if a report withdraws its consent; see [`EventEffect`].
        withdrawn: Option<Key>,
    },
    /// Anyone can write a report without a valid token, so this changes nothing.
    Unauthenticated,
    /// The outbox does not have the message, or no relay was given it.
    UnknownMessage,
    /// E.g. about a virus, or a message which is not spam.
    NoNews,
    AutoReply,
    Unrecognized,
}

/// Records each report in a returned message once.
///
/// # Errors
/// If the store fails. Calling this again with the same message is safe.
pub async fn record_bounce(
    store: &dyn Store,
    settings: &Settings,
    returned: ReturnedMessage,
    now: Timestamp,
) -> Result<BounceOutcome, tidings_store::StoreError> {
    let reports = match &returned.content {
        ReturnedContent::Reports(reports) => reports,
        ReturnedContent::NoNews => return Ok(BounceOutcome::NoNews),
        ReturnedContent::AutoReply => return Ok(BounceOutcome::AutoReply),
        ReturnedContent::Unrecognized => return unsubscribe_by_email(store, settings, &returned, now).await,
    };
    let message = match find_authenticated(TokenPurpose::Report, store, settings, &returned).await? {
        Ok(message) => message,
        Err(taken) => {
            tracing::warn!(id = ?returned.message, ?taken, "delivery report had no effect");
            return Ok(taken);
        }
    };
    let (mut new, mut again, mut withdrawn) = (0, 0, None);
    for report in reports {
        match delivery_events::record_event(store, settings, delivery_event(&message, report, now), now).await {
            Ok(recorded) => {
                *(if recorded.again { &mut again } else { &mut new }) += 1;
                withdrawn = withdrawn.or(recorded.withdrawn);
            }
            Err(DeliveryEventError::Store(error)) => return Err(error),
            Err(error @ (DeliveryEventError::Invalid(_) | DeliveryEventError::UnknownMessage)) => {
                tracing::warn!(id = %message.id, %error, "cannot record delivery report");
            }
        }
    }
    if new + again == 0 {
        return Ok(BounceOutcome::UnknownMessage);
    }
    Ok(BounceOutcome::Recorded { new, again, withdrawn })
}

/// Handles an email to the address in our `List-Unsubscribe` header. We ignore its content, because mail
/// programs write it.
async fn unsubscribe_by_email(
    store: &dyn Store,
    settings: &Settings,
    returned: &ReturnedMessage,
    now: Timestamp,
) -> Result<BounceOutcome, tidings_store::StoreError> {
    let Ok(message) = find_authenticated(TokenPurpose::Leave, store, settings, returned).await? else {
        return Ok(BounceOutcome::Unrecognized);
    };
    let (kind, diagnostic) = (ReportKind::Unsubscribed, String::new());
    let report = ParsedReport { kind, status: None, diagnostic, recipient: None, occurred_at: Some(now) };
    match delivery_events::record_event(store, settings, delivery_event(&message, &report, now), now).await {
        Ok(EventEffect { again, withdrawn, .. }) => {
            Ok(BounceOutcome::Recorded { new: usize::from(!again), again: usize::from(again), withdrawn })
        }
        Err(DeliveryEventError::Store(error)) => Err(error),
        Err(DeliveryEventError::Invalid(_) | DeliveryEventError::UnknownMessage) => Ok(BounceOutcome::UnknownMessage),
    }
}

async fn find_authenticated(
    purpose: TokenPurpose,
    store: &dyn Store,
    settings: &Settings,
    returned: &ReturnedMessage,
) -> Result<Result<MessageRecord, BounceOutcome>, tidings_store::StoreError> {
    let mut taken =
        if returned.tokens.is_empty() { BounceOutcome::Unauthenticated } else { BounceOutcome::UnknownMessage };
    for token in &returned.tokens {
        let Some(message) = store.message(token.message()).await? else { continue };
        let keys = settings.link_keys.as_ref();
        if keys.is_some_and(|keys| keys.verify(purpose, message.origin.tenant(), token)) {
            return Ok(Ok(message));
        }
        taken = BounceOutcome::Unauthenticated;
    }
    Ok(Err(taken))
}

/// Clamps the time between the message's creation and now, because other servers' clocks may be wrong. Without
/// a time we use the message's, so a second copy yields the same event.
fn delivery_event(message: &MessageRecord, report: &ParsedReport, now: Timestamp) -> DeliveryEvent {
    let sent = message.sent_at.unwrap_or(message.created_at);
    let occurred_at = report.occurred_at.unwrap_or(sent).max(message.created_at).min(now);
    DeliveryEvent {
        tenant: Some(message.origin.tenant().to_owned()),
        message: Some(message.id.to_string()),
        status: report.status.map(|status| status.to_string()),
        diagnostic: Some(report.diagnostic.clone()),
        ..DeliveryEvent::new(report.kind.for_recipient(report.recipient.as_deref(), &message.envelope_to), occurred_at)
    }
}
