//! The consequences of an attempt's end (rules 25 to 27).

use jiff::Timestamp;
use tidings_mail::smtp::{AttemptOutcome, Reply};
use tidings_model::{
    attempt::{AttemptClass, Phase},
    records::{AttemptEnd, Origin, Reason, Suppression},
    step::{Closed, Outcome, Sent},
};

use super::Shorter;

/// The end of an attempt that must not be made: an earlier attempt was past the dot, and the stream sends at most once.
pub(super) fn withheld() -> (AttemptEnd, Closed) {
    let why = "an earlier attempt was past the dot, and the stream sends at most once".to_owned();
    let closed = Closed { outcome: Outcome::Ambiguous, why };
    let end = AttemptEnd {
        phase: Phase::Connect,
        class: AttemptClass::Cancelled,
        reply: String::new(),
        relay_id: None,
        closed: Some(closed.clone()),
        suppress: None,
        consecutive: 1,
        return_events: false,
    };
    (end, closed)
}

/// The circumstances that decide if another attempt may follow.
#[derive(Clone, Copy)]
pub(super) struct RetryContext {
    /// An ambiguous attempt may be repeated.
    pub may_resend: bool,
    /// The message that follows one that is too large.
    pub shorter: Shorter,
    /// No attempt follows a failure of this one.
    pub last: bool,
    /// An earlier attempt was ambiguous.
    pub had_ambiguous_attempt: bool,
    /// See [`Settings::soft_bounces`](tidings_model::settings::Settings::soft_bounces).
    pub soft_bounces: u32,
}

/// Decides what each class of outcome leads to, for the ledger and for the workflow. No other place does. A message is of an origin, and
/// goes to an address.
pub(super) fn verdict(
    delivery: &AttemptOutcome,
    (origin, envelope_to): (&Origin, &str),
    context: RetryContext,
    now: Timestamp,
) -> (AttemptEnd, Sent) {
    let why = delivery.detail.clone();
    let sent = answer(delivery, context, now);
    let (suppress, consecutive) = match delivery.class {
        AttemptClass::HardBounce => (Some(Reason::HardBounce), 1),
        AttemptClass::MailboxFull | AttemptClass::UnknownMailbox | AttemptClass::Refused => {
            (Some(Reason::SoftBounces), context.soft_bounces)
        }
        _ => (None, 1),
    };
    let end = AttemptEnd {
        phase: delivery.phase,
        class: delivery.class,
        reply: delivery.reply.as_ref().map(ToString::to_string).unwrap_or_default(),
        relay_id: delivery.reply.as_ref().filter(|_| delivery.class == AttemptClass::Sent).and_then(Reply::queued_as),
        closed: match &sent {
            Sent::Closed { closed, .. } => Some(closed.clone()),
            Sent::Deferred { .. } | Sent::Waiting { .. } | Sent::Unrecorded(_) => None,
        },
        suppress: suppress.map(|reason| Suppression {
            tenant: origin.tenant().to_owned(),
            address: envelope_to.to_owned(),
            reason,
            detail: why,
            at: now,
        }),
        consecutive,
        return_events: delivery.class == AttemptClass::Deferred && context.last && !context.had_ambiguous_attempt,
    };
    (end, sent)
}

fn answer(delivery: &AttemptOutcome, context: RetryContext, now: Timestamp) -> Sent {
    let RetryContext { may_resend, shorter, last, had_ambiguous_attempt, .. } = context;
    let why = delivery.detail.clone();
    let closed = |outcome, why| Sent::closed(Closed { outcome, why });
    let exhausted = |outcome| closed(outcome, format!("the last attempt failed, too: {why}"));
    match delivery.class {
        AttemptClass::Sent => closed(Outcome::Sent, String::new()),
        AttemptClass::Ambiguous if !may_resend => closed(Outcome::Ambiguous, why),
        // The recipient may have the message. Another digest must not repeat its events.
        AttemptClass::Ambiguous if last => exhausted(Outcome::Ambiguous),
        AttemptClass::Deferred if last && had_ambiguous_attempt => exhausted(Outcome::Ambiguous),
        AttemptClass::Deferred if last => exhausted(Outcome::Failed),
        AttemptClass::Deferred | AttemptClass::Ambiguous | AttemptClass::Fenced | AttemptClass::Cancelled => {
            Sent::Deferred { why, again_in: None }
        }
        AttemptClass::TooLarge if shorter != Shorter::Never => {
            let too_large = if let Shorter::Asked(attempt) = shorter { Some(attempt) } else { None };
            Sent::Waiting { until: now, why, pause: None, too_large }
        }
        // The relay is at fault. The breakers decide when a relay takes the message.
        AttemptClass::Throttled | AttemptClass::Configuration | AttemptClass::Policy => {
            Sent::Waiting { until: now, why, pause: None, too_large: None }
        }
        AttemptClass::HardBounce
        | AttemptClass::MailboxFull
        | AttemptClass::UnknownMailbox
        | AttemptClass::Refused
        | AttemptClass::TooLarge
        | AttemptClass::Failed => closed(Outcome::Failed, why),
    }
}
