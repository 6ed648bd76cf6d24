//! `render`: renders a claimed digest's email once and puts it in the outbox.

use jiff::Timestamp;
use tidings_model::{
    records::{Actor, Closing, Message, MessageRecord, Origin, Recipient},
    rules::admission::{Missing, wait_for_table},
    settings::{DigestSettings, Shown},
    step::{RenderInput, Rendered, TooLarge},
    window::{Closed, Outcome, Window},
};
use tidings_services::{
    deps::{Deps, now},
    digest_email::{Composed, Email},
    error::Error,
    metrics,
};

/// How many groups to show, each with its latest item, after a relay found the full email too large.
const FEW_GROUPS: u32 = 5;

/// Renders and stores the email unless the claim did, or replaces one which a relay found too large. Ends the
/// digest if the recipient is missing or invalid, no shorter email is possible, or the digest type has not
/// been configured for seven days.
///
/// # Errors
/// If the store fails, the digest type is not configured yet, no template works, or the DKIM key cannot sign.
pub async fn run(deps: &Deps, input: &RenderInput) -> Result<Rendered, Error> {
    if let Some(too_large) = &input.too_large {
        return render_shorter(deps, input, too_large).await;
    }
    if input.stored {
        return Ok(Rendered::Stored);
    }
    let window = &input.window;
    let now = now(input.asked_at);
    let Some(settings) = deps.settings.digest(&window.key) else { return without_table(deps, window, now).await };
    let shown = settings.shown();
    let facts = deps.kept_facts(&window.key).await?;
    let why = match &facts.recipient {
        None => "the recipient left the directory".to_owned(),
        Some(recipient) => loop {
            let email = Email { window, facts: &facts, recipient, date: now, message_id: None };
            let contents = deps.store.contents(window, shown).await?;
            match email.compose(deps, &contents).await? {
                Composed::Message(mut message) => {
                    if facts.changed_at > contents.claimed_at {
                        // The claim used the preferences at the time. Clearing the hash makes the first
                        // attempt compare again.
                        message.made_from.clear();
                    }
                    if deps.store.put_message(&message, Some(contents.items)).await? {
                        return Ok(Rendered::Stored);
                    }
                }
                Composed::Undeliverable { why } => break why,
            }
        },
    };
    end(deps, window, failed(why), now).await
}

async fn render_shorter(
    deps: &Deps,
    input: &RenderInput,
    TooLarge { attempt, why }: &TooLarge,
) -> Result<Rendered, Error> {
    let RenderInput { window, asked_at, .. } = input;
    if let Some(MessageRecord { envelope_to, message_id, made_at, .. }) = deps.store.message(window.digest_id).await? {
        let large = Large { address: &envelope_to, message_id: &message_id, date: made_at };
        if shorten(deps, window, *attempt, large, |error| matches!(error, Error::Store(_))).await? {
            return Ok(Rendered::Stored);
        }
    }
    end(deps, window, failed(why.clone()), now(*asked_at)).await
}

/// Waits while the digest type is not configured. It was configured at the claim, so the seven days start
/// there.
async fn without_table(deps: &Deps, window: &Window, now: Timestamp) -> Result<Rendered, Error> {
    deps.leave_to_other_worker(&window.key).await?;
    let claimed_at = deps.store.digest(window.digest_id).await?.and_then(|digest| digest.claimed_at);
    match wait_for_table(&window.key.digest_type, claimed_at, now) {
        Missing::Ends(closed) => end(deps, window, closed, now).await,
        Missing::Waits { .. } => Err(Error::UnknownType(window.key.digest_type.clone())),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Large<'a> {
    pub address: &'a str,
    pub message_id: &'a str,
    pub date: Timestamp,
}

/// Replaces the email of attempt `number` with a shorter one to the same address. Returns `false` if this is
/// impossible, or was already done.
///
/// # Errors
/// If the store fails, or rendering fails with an error for which `handed_on` is `true`.
pub(super) async fn shorten(
    deps: &Deps,
    window: &Window,
    number: u32,
    large: Large<'_>,
    handed_on: fn(&Error) -> bool,
) -> Result<bool, Error> {
    match compose_shorter(deps, window, large).await {
        Ok(Some(short)) => Ok(deps.store.shrink_message(&short, number).await?),
        Ok(None) => Ok(false),
        Err(error) if handed_on(&error) => Err(error),
        Err(error) => {
            tracing::warn!(why = %error, "an email that is too large cannot be made smaller");
            Ok(false)
        }
    }
}

async fn compose_shorter(
    deps: &Deps,
    window: &Window,
    Large { address, message_id, date }: Large<'_>,
) -> Result<Option<Message>, Error> {
    let facts = deps.kept_facts(&window.key).await?;
    let Some(recipient) = &facts.recipient else { return Ok(None) };
    let recipient = &Recipient { address: address.to_owned(), ..recipient.clone() };
    let contents = deps.store.contents(window, shorter(deps.digest(&window.key)?)).await?;
    let email = Email { window, facts: &facts, recipient, date, message_id: Some(message_id) };
    match email.compose(deps, &contents).await? {
        Composed::Message(message) => Ok(Some(*message)),
        Composed::Undeliverable { .. } => Ok(None),
    }
}

pub(super) fn shorter(settings: &DigestSettings) -> Shown<'_> {
    Shown { groups: FEW_GROUPS, items: 1, ..settings.shown() }
}

const fn failed(why: String) -> Closed {
    Closed { outcome: Outcome::Failed, why }
}

async fn end(deps: &Deps, window: &Window, closed: Closed, now: Timestamp) -> Result<Rendered, Error> {
    let closing =
        Closing { window, events: &[], closed: &closed, by: Actor::Tidings, return_events: false, planned: None, now };
    let closed = deps.store.close(closing).await?.closed;
    metrics::alert_ended(window.digest_id, &Origin::Digest(window.key.clone()), &closed);
    Ok(Rendered::Nothing(closed))
}
