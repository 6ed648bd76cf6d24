//! `render`: makes the email of a claimed digest once and puts it in the outbox.

use tidings_model::{
    records::{Actor, Closing, Message, Origin},
    step::{Closed, Outcome, RenderInput, Rendered, Window},
};

use super::email::{Composed, Email};
use crate::{
    alert,
    deps::{Deps, now},
    error::Error,
};

/// The most groups that an email shows after a relay found the full one too large.
const FEW_GROUPS: u32 = 5;

/// Renders the email and stores it. Ends the digest instead if the recipient is gone or has an invalid address.
///
/// # Errors
/// The store cannot answer, the digest type is not configured, no template works, or the DKIM key cannot sign.
pub async fn run(deps: &Deps, input: &RenderInput) -> Result<Rendered, Error> {
    let window = &input.window;
    let now = now(input.asked_at);
    let max_groups = deps.digest(&window.key)?.max_items;
    let facts = deps.facts(&window.key).await?;
    let why = match &facts.recipient {
        None => "the recipient left the directory".to_owned(),
        Some(recipient) => loop {
            let email = Email { window, facts: &facts, recipient, date: now };
            match email.compose(deps, max_groups).await? {
                Composed::Message { message, items } => {
                    if deps.store.put_message(&message, Some(items)).await? {
                        return Ok(Rendered::Stored);
                    }
                    // The digest has other events by now: render again.
                }
                Composed::Undeliverable { why } => break why,
            }
        },
    };
    let closed = Closed { outcome: Outcome::Failed, why };
    let closing =
        Closing { window, events: &[], closed: &closed, by: Actor::Tidings, return_events: false, planned: None, now };
    let closed = deps.store.close(closing).await?.closed;
    alert::ended(window.digest_id, &Origin::Digest(window.key.clone()), &closed);
    Ok(Rendered::Nothing(closed))
}

/// Replaces an email that attempt `number` found too large for the relay by a shorter one. `false`: no shorter one is
/// possible, or the email was replaced before.
///
/// # Errors
/// As [`run`].
pub(super) async fn shorten(deps: &Deps, window: &Window, number: u32, large: &Message) -> Result<bool, Error> {
    let facts = deps.facts(&window.key).await?;
    let Some(recipient) = &facts.recipient else { return Ok(false) };
    let email = Email { window, facts: &facts, recipient, date: large.created_at };
    let Composed::Message { message: short, .. } = email.compose(deps, FEW_GROUPS).await? else { return Ok(false) };
    if short.envelope_to != large.envelope_to || short.bytes.len() >= large.bytes.len() {
        return Ok(false);
    }
    Ok(deps.store.shrink_message(&short, number).await?)
}
