//! `render`: makes the email of a claimed digest once and puts it in the outbox.

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

/// The most groups that an email shows after a relay found the full one too large, each with its latest item.
const FEW_GROUPS: u32 = 5;

/// Renders the email and stores it, unless the claim stored it, or replaces one that a relay found too large. Ends the digest instead if the recipient is gone
/// or has an invalid address, if no shorter email is possible, or if no table has had the digest type for seven days.
///
/// # Errors
/// The store cannot answer, no table has the digest type yet, no template works, or the DKIM key cannot sign.
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
                        // The claim chose the events by what the recipient had chosen then: the first attempt looks again.
                        message.made_from.clear();
                    }
                    if deps.store.put_message(&message, Some(contents.items)).await? {
                        return Ok(Rendered::Stored);
                    }
                    // The digest has other events by now: render again.
                }
                Composed::Undeliverable { why } => break why,
            }
        },
    };
    end(deps, window, failed(why), now).await
}

/// Replaces the email by a shorter one, or ends the digest if that is not possible.
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

/// The answer while no table has the digest type. There was one when the window was claimed: the seven days begin there.
async fn without_table(deps: &Deps, window: &Window, now: Timestamp) -> Result<Rendered, Error> {
    deps.leave_to_other_worker(&window.key).await?;
    let claimed_at = deps.store.digest(window.digest_id).await?.and_then(|digest| digest.claimed_at);
    match wait_for_table(&window.key.digest_type, claimed_at, now) {
        Missing::Ends(closed) => end(deps, window, closed, now).await,
        Missing::Waits { .. } => Err(Error::UnknownType(window.key.digest_type.clone())),
    }
}

/// An email that a relay found too large.
#[derive(Clone, Copy)]
pub(super) struct Large<'a> {
    pub address: &'a str,
    pub message_id: &'a str,
    /// Its `Date`.
    pub date: Timestamp,
}

/// Replaces an email that attempt `number` found too large for the relay by a shorter one to the same address. `false`: no
/// shorter one is possible, or the email was replaced before.
///
/// # Errors
/// The store cannot replace the email, or an error that is `handed_on` keeps a shorter one from being made.
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

/// A shorter message to the address of the large one. The next attempt follows a change of the address.
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

/// The groups of a message that follows one that a relay found too large.
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
