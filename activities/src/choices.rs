//! Preferences and consent of recipients: checked, recorded with the actor and the reason, and signalled to the key's
//! workflow. The command line and a gateway call these functions.

use jiff::Timestamp;
use temporalio_client::{
    Client, UntypedSignal, UntypedWorkflow, WorkflowSignalOptions, errors::WorkflowInteractionError,
};
use temporalio_common::data_converters::RawValue;
use tidings_model::{
    Key, MessageKey, StoredWait, canonical_zone,
    command::Order,
    delivery_events::{GRANT, WITHDRAW},
    limits::Invalid,
    names::PREFERENCES_SIGNAL,
    records::{AuditEntry, CapSpan, Preferences, PreferencesPut, Wish},
    rules::{limit::limit_since_anywhere, preference_check},
    settings::{Cap, DigestSettings, Settings},
};
use tidings_store::Store;
use tracing::{Instrument as _, Span, debug_span, field::display};

mod view;

pub use view::PreferencesView;

/// A change of preferences that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub revision: u64,
    /// `false` if the same was chosen before.
    pub changed: bool,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field will not do.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is nothing to choose for.
    #[error("digest type {0:?} is not configured; tidings.toml has no [digest.{0}]")]
    UnknownType(String),
    /// Another change came first. The number is the revision now.
    #[error("the preferences changed meanwhile: they have revision {0} now")]
    Conflict(u64),
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Changes what the recipient chose, as one atomic step: a concurrent change is neither lost nor undone. With `expected` only that
/// revision is changed. [`tell`] comes next.
///
/// # Errors
/// [`Error::Conflict`] if the revision is not `expected`. Names the first field that is wrong, and what would be right; or the store
/// cannot answer.
pub async fn change(
    store: &dyn Store,
    settings: &Settings,
    key: &Key,
    change: impl Fn(Preferences) -> Preferences + Sync,
    expected: Option<u64>,
    order: &Order,
    now: Timestamp,
) -> Result<Chosen, Error> {
    let settings = digest(settings, key)?;
    loop {
        let facts = store.facts(key).await?;
        if expected.is_some_and(|expected| expected != facts.revision) {
            return Err(Error::Conflict(facts.revision));
        }
        let before = today(settings, &facts.preferences);
        let after = with_canonical_zone(&before, today(settings, &change(before.clone())));
        if after == before {
            return Ok(Chosen { revision: facts.revision, changed: false });
        }
        preference_check::preferences(settings, &before, &after, now)?;
        match put(store, key, &under_any_name(settings, &after), facts.revision, order, now).await {
            // Another change won. Each turn of this loop means that one of them is stored.
            Err(Error::Conflict(_)) if expected.is_none() => {}
            answer => return answer,
        }
    }
}

/// The preferences with the names that categories have today.
fn today(settings: &DigestSettings, preferences: &Preferences) -> Preferences {
    Preferences { off: settings.off_today(&preferences.off), ..preferences.clone() }
}

/// The preferences as they are stored: a category is off under each of its names, also for a process whose file has a former one.
fn under_any_name(settings: &DigestSettings, preferences: &Preferences) -> Preferences {
    Preferences { off: settings.off_under_any_name(&preferences.off), ..preferences.clone() }
}

/// The preferences with the name that a zone has today, for one that is chosen now. An earlier choice stays as it was written.
fn with_canonical_zone(before: &Preferences, chosen: Preferences) -> Preferences {
    if chosen.zone == before.zone {
        return chosen;
    }
    Preferences { zone: chosen.zone.map(|zone| canonical_zone(&zone).to_owned()), ..chosen }
}

async fn put(
    store: &dyn Store,
    key: &Key,
    preferences: &Preferences,
    expected: u64,
    order: &Order,
    now: Timestamp,
) -> Result<Chosen, Error> {
    match store.put_preferences(key, preferences, Some(expected), &entry(order, "preferences", now)?).await? {
        PreferencesPut::Stored { revision, changed } => Ok(Chosen { revision, changed }),
        PreferencesPut::Conflict { current } => Err(Error::Conflict(current.revision)),
    }
}

/// Carries out all wishes of a recipient as one atomic step. Returns the keys that changed, or `None` and changes nothing if one of
/// them is no longer as the recipient saw it. [`tell`] comes next for each key that changed.
///
/// # Errors
/// Names the first field that is wrong, and what would be right; a digest type is not configured; or the store cannot answer.
pub async fn wish(
    store: &dyn Store,
    settings: &Settings,
    wishes: &[Wish],
    why: &str,
    now: Timestamp,
) -> Result<Option<Vec<Key>>, Error> {
    let mut wishes = wishes.to_vec();
    for Wish { key, preferences, .. } in &mut wishes {
        let (settings, before) = (digest(settings, key)?, store.facts(key).await?.preferences);
        let before = today(settings, &before);
        let chosen = with_canonical_zone(&before, today(settings, preferences));
        if before != chosen {
            preference_check::preferences(settings, &before, &chosen, now)?;
            *preferences = under_any_name(settings, &chosen);
        }
    }
    Ok(store.put_wishes(&wishes, now, why).await?)
}

/// Records whether the recipient wants this digest at all. [`tell`] comes next.
///
/// # Errors
/// `order` will not do, or the store cannot answer.
pub async fn consent(
    store: &dyn Store,
    settings: &Settings,
    key: &Key,
    wanted: bool,
    order: &Order,
    now: Timestamp,
) -> Result<(), Error> {
    digest(settings, key)?;
    let action = if wanted { GRANT } else { WITHDRAW };
    Ok(store.put_consent(key, wanted, &entry(order, action, now)?).await?)
}

/// Returns the time from which the oldest of as many digests as the cap allows counts.
/// [`FrequencyLimits::capped`](tidings_model::settings::FrequencyLimits::capped) says until when.
///
/// # Errors
/// The store cannot answer.
pub async fn capped_from(
    store: &dyn Store,
    cap: Option<Cap>,
    key: &Key,
    now: Timestamp,
) -> Result<Option<Timestamp>, tidings_store::Error> {
    match cap {
        Some(Cap { most, within }) => {
            let (since, until) = (limit_since_anywhere(now, within), StoredWait::PAST.farthest(now));
            store.capped_from(key, CapSpan { most, since, until }).await
        }
        None => Ok(None),
    }
}

/// Tells the key's workflow that something was chosen. Starts none: where none runs, no window is open.
///
/// Where this fails the choice still counts: admission looks at the revision again.
///
/// # Errors
/// Temporal does not answer, or has no such namespace.
pub async fn tell(client: &Client, key: &Key) -> Result<(), WorkflowInteractionError> {
    signal(client, key.workflow_id()).await
}

/// Signals a digest's or a message's workflow that its store has something new for it. Starts none.
///
/// # Errors
/// As for [`tell`].
pub async fn signal(client: &Client, workflow_id: String) -> Result<(), WorkflowInteractionError> {
    let span = signalling(&workflow_id);
    let workflow = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
    let signal = UntypedSignal::new(PREFERENCES_SIGNAL);
    // `RawValue::empty()` would be one empty argument.
    match workflow.signal(signal, RawValue::default(), WorkflowSignalOptions::default()).instrument(span).await {
        Err(WorkflowInteractionError::NotFound(refusal)) => {
            tidings_client::check_namespace(&refusal).map_err(|missing| WorkflowInteractionError::Other(missing.into()))
        }
        answer => answer,
    }
}

/// The span of a signal. A message has its id there, because its sender may put an address into its key.
fn signalling(workflow_id: &str) -> Span {
    let message = MessageKey::from_workflow_id(workflow_id).map(|key| display(key.message_id()));
    let key = message.is_none().then_some(workflow_id);
    debug_span!("temporal", call = "signal", key, message)
}

fn digest<'a>(settings: &'a Settings, key: &Key) -> Result<&'a DigestSettings, Error> {
    settings.digest(key).ok_or_else(|| Error::UnknownType(key.digest_type.clone()))
}

fn entry(order: &Order, action: &str, now: Timestamp) -> Result<AuditEntry, Invalid> {
    order.check()?;
    Ok(order.entry(action, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_is_chosen_now_gets_the_name_that_it_has_today() {
        let in_zone = |zone: Option<&str>| Preferences { zone: zone.map(str::to_owned), ..Preferences::default() };
        for (before, chosen, stored) in [
            (None, Some("US/Pacific"), Some("America/Los_Angeles")),
            (Some("Asia/Kolkata"), Some("Asia/Calcutta"), Some("Asia/Kolkata")),
            (Some("Asia/Calcutta"), Some("Asia/Calcutta"), Some("Asia/Calcutta")),
            (Some("Asia/Calcutta"), Some("Asia/Kolkata"), Some("Asia/Kolkata")),
            (None, Some("Mars/Olympus"), Some("Mars/Olympus")),
            (Some("Asia/Tokyo"), None, None),
        ] {
            assert_eq!(with_canonical_zone(&in_zone(before), in_zone(chosen)), in_zone(stored), "{before:?}");
        }
    }
}
