//! `render`: makes the email of a claimed digest once and puts it in the outbox.

use jiff::Timestamp;
use tidings_model::{
    records::{Actor, Closing, Message, Origin, Shown},
    rules::admission::{Admission, wait_for_table},
    step::{Closed, Outcome, RenderInput, Rendered, TooLarge, Window},
};

use super::email::{Composed, Email};
use crate::{
    alert,
    attempt::is_unavailable,
    deps::{Deps, now},
    error::Error,
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
            let email = Email { window, facts: &facts, recipient, date: now };
            let contents = deps.store.contents(window, shown).await?;
            match email.compose(deps, &contents)? {
                Composed::Message(message) => {
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
    if let Some(large) = deps.store.message(window.digest_id).await? {
        let short = match compose_shorter(deps, window, large.created_at).await {
            Err(error @ Error::Store(_)) => return Err(error),
            Err(error) => {
                cannot_shorten(&error);
                None
            }
            Ok(short) => short.filter(|short| short.envelope_to == large.envelope_to),
        };
        if let Some(short) = short
            && deps.store.shrink_message(&short, *attempt).await?
        {
            return Ok(Rendered::Stored);
        }
    }
    end(deps, window, failed(why.clone()), now(*asked_at)).await
}

/// The answer while no table has the digest type. There was one when the window was claimed: the seven days begin there.
async fn without_table(deps: &Deps, window: &Window, now: Timestamp) -> Result<Rendered, Error> {
    let claimed_at = deps.store.digest(window.digest_id).await?.and_then(|digest| digest.claimed_at);
    let since = Window { due_at: window.due_at.max(claimed_at.unwrap_or(window.due_at)), ..window.clone() };
    match wait_for_table(&since, now) {
        Admission::Refused(closed) => end(deps, window, closed, now).await,
        _ => Err(Error::UnknownType(window.key.digest_type.clone())),
    }
}

fn cannot_shorten(error: &Error) {
    tracing::warn!(why = %error, "an email that is too large cannot be made smaller");
}

/// Replaces an email that attempt `number` found too large for the relay by a shorter one to the same address. `false`: no
/// shorter one is possible, or the email was replaced before.
///
/// # Errors
/// The store cannot answer.
pub(super) async fn shorten(
    deps: &Deps,
    window: &Window,
    number: u32,
    envelope_to: &str,
    date: Timestamp,
) -> Result<bool, Error> {
    match compose_shorter(deps, window, date).await {
        Ok(Some(short)) if short.envelope_to == envelope_to => Ok(deps.store.shrink_message(&short, number).await?),
        Ok(_) => Ok(false),
        Err(error) if is_unavailable(&error) => Err(error),
        Err(error) => {
            cannot_shorten(&error);
            Ok(false)
        }
    }
}

async fn compose_shorter(deps: &Deps, window: &Window, date: Timestamp) -> Result<Option<Message>, Error> {
    let facts = deps.kept_facts(&window.key).await?;
    let Some(recipient) = &facts.recipient else { return Ok(None) };
    let shown = Shown { groups: FEW_GROUPS, items: 1, ..deps.digest(&window.key)?.shown() };
    let contents = deps.store.contents(window, shown).await?;
    match (Email { window, facts: &facts, recipient, date }).compose(deps, &contents)? {
        Composed::Message(message) => Ok(Some(*message)),
        Composed::Undeliverable { .. } => Ok(None),
    }
}

const fn failed(why: String) -> Closed {
    Closed { outcome: Outcome::Failed, why }
}

async fn end(deps: &Deps, window: &Window, closed: Closed, now: Timestamp) -> Result<Rendered, Error> {
    let closing =
        Closing { window, events: &[], closed: &closed, by: Actor::Tidings, return_events: false, planned: None, now };
    let closed = deps.store.close(closing).await?.closed;
    alert::ended(window.digest_id, &Origin::Digest(window.key.clone()), &closed);
    Ok(Rendered::Nothing(closed))
}
