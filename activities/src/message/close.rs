//! `message_close`: ends a message that was cancelled.

use tidings_model::{
    command::Order,
    message::contract::CloseInput,
    records::Actor,
    window::{Closed, Outcome},
};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Records the end, and answers with the end that the outbox recorded first.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &CloseInput) -> Result<Closed, Error> {
    let CloseInput { asked_at, key, order } = input;
    let (by, why) = match order {
        Some(Order { by, why }) => (Actor::of_login(by), why.clone()),
        None => (Actor::Tidings, "cancelled".to_owned()),
    };
    let closed = Closed { outcome: Outcome::Dropped, why };
    Ok(deps.store.close_message(key, &closed, by, now(*asked_at)).await?.unwrap_or_else(missing))
}

/// The end of a workflow that was started without a message.
pub(super) fn missing() -> Closed {
    Closed { outcome: Outcome::Failed, why: "the outbox has no such message".to_owned() }
}
