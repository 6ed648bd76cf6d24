//! Changes preferences and consent: checks the change, records actor and reason, and signals the key's
//! workflow.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use futures::future::join_all;
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use temporalio_client::{
    Client, UntypedSignal, UntypedWorkflow, WorkflowSignalOptions, errors::WorkflowInteractionError,
};
use temporalio_common::data_converters::RawValue;
use tidings_model::{
    Key, MessageKey, StoredWait, canonical_zone,
    command::CommandContext,
    delivery_events::{GRANT, WITHDRAW},
    known_zone,
    limits::InvalidField,
    names::PREFERENCES_SIGNAL,
    pause::PauseDetails,
    records::{AuditEntry, CapSpan, EngagementTimes, KeyFacts, Preferences, PreferencesChange, PreferencesPut},
    rules::{EffectiveSchedule, limit::limit_since_anywhere, preference_check},
    settings::{DigestCap, DigestSettings, FormerNames, FrequencyLimits, Settings},
    when,
};
use tidings_store::Store;
use tokio::time::timeout;
use tracing::{Instrument as _, Span, debug_span, field::display};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPreferences {
    pub revision: u64,
    pub changed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PreferencesError {
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    #[error("digest type {0:?} is not configured; tidings.toml has no [digest.{0}]")]
    UnknownType(String),
    /// Another change came first; contains the current revision.
    #[error("the preferences changed meanwhile: they have revision {0} now")]
    Conflict(u64),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

/// Changes preferences atomically, provided they still have the `expected` revision if given. Call [`signal_key`]
/// next.
///
/// # Errors
/// [`PreferencesError::Conflict`] for another revision, the first invalid field with its remedy, or if the store fails.
pub async fn update_preferences(
    store: &dyn Store,
    settings: &Settings,
    key: &Key,
    change: impl Fn(Preferences) -> Preferences + Sync,
    expected: Option<u64>,
    order: &CommandContext,
    now: Timestamp,
) -> Result<StoredPreferences, PreferencesError> {
    let settings = digest_settings(settings, key)?;
    loop {
        let facts = store.facts(key).await?;
        if expected.is_some_and(|expected| expected != facts.revision) {
            return Err(PreferencesError::Conflict(facts.revision));
        }
        let before = with_current_names(settings, &facts.preferences);
        let after = with_canonical_zone(&before, with_current_names(settings, &change(before.clone())));
        if after == before {
            return Ok(StoredPreferences { revision: facts.revision, changed: false });
        }
        preference_check::check_preferences(settings, &before, &after, now)?;
        match store_preferences(store, key, &under_any_name(settings, &after), facts.revision, order, now).await {
            Err(PreferencesError::Conflict(_)) if expected.is_none() => {}
            answer => return answer,
        }
    }
}

fn with_current_names(settings: &DigestSettings, preferences: &Preferences) -> Preferences {
    Preferences { off: settings.off_today(&preferences.off), ..preferences.clone() }
}

/// Switches a category off under each of its names, because another process may use a former one.
fn under_any_name(settings: &DigestSettings, preferences: &Preferences) -> Preferences {
    Preferences { off: settings.off_under_any_name(&preferences.off), ..preferences.clone() }
}

/// Canonicalizes a newly chosen time zone. An earlier choice stays as written.
fn with_canonical_zone(before: &Preferences, chosen: Preferences) -> Preferences {
    if chosen.zone == before.zone {
        return chosen;
    }
    Preferences { zone: chosen.zone.map(|zone| canonical_zone(&zone).to_owned()), ..chosen }
}

async fn store_preferences(
    store: &dyn Store,
    key: &Key,
    preferences: &Preferences,
    expected: u64,
    order: &CommandContext,
    now: Timestamp,
) -> Result<StoredPreferences, PreferencesError> {
    match store.put_preferences(key, preferences, Some(expected), &entry(order, "preferences", now)?).await? {
        PreferencesPut::Stored { revision, changed } => Ok(StoredPreferences { revision, changed }),
        PreferencesPut::Conflict { current } => Err(PreferencesError::Conflict(current.revision)),
    }
}

/// Applies all changes atomically, or returns `None` if a key no longer has the preferences shown to the
/// recipient. Call [`signal_key`] next for each returned key.
///
/// # Errors
/// The first invalid field with its remedy, or if a digest type is not configured, or the store fails.
pub async fn set_all_preferences(
    store: &dyn Store,
    settings: &Settings,
    wishes: &[PreferencesChange],
    why: &str,
    now: Timestamp,
) -> Result<Option<Vec<Key>>, PreferencesError> {
    let mut wishes = wishes.to_vec();
    for PreferencesChange { key, preferences, .. } in &mut wishes {
        let (settings, before) = (digest_settings(settings, key)?, store.facts(key).await?.preferences);
        let before = with_current_names(settings, &before);
        let chosen = with_canonical_zone(&before, with_current_names(settings, preferences));
        if before != chosen {
            preference_check::check_preferences(settings, &before, &chosen, now)?;
            *preferences = under_any_name(settings, &chosen);
        }
    }
    Ok(store.put_wishes(&wishes, now, why).await?)
}

/// Records consent to this digest. Call [`signal_key`] next.
///
/// # Errors
/// If `order` is invalid, the digest type is not configured, or the store fails.
pub async fn set_consent(
    store: &dyn Store,
    settings: &Settings,
    key: &Key,
    wanted: bool,
    order: &CommandContext,
    now: Timestamp,
) -> Result<(), PreferencesError> {
    digest_settings(settings, key)?;
    let action = if wanted { GRANT } else { WITHDRAW };
    Ok(store.put_consent(key, wanted, &entry(order, action, now)?).await?)
}

/// Returns when the oldest digest filling the cap starts to count, or `None` below the cap. See
/// [`FrequencyLimits::reached_cap`](tidings_model::settings::FrequencyLimits::reached_cap).
///
/// # Errors
/// If the store fails.
pub async fn capped_from(
    store: &dyn Store,
    cap: Option<DigestCap>,
    key: &Key,
    now: Timestamp,
) -> Result<Option<Timestamp>, tidings_store::StoreError> {
    match cap {
        Some(DigestCap { most, within }) => {
            let (since, until) = (limit_since_anywhere(now, within), StoredWait::PAST.latest_plausible(now));
            store.capped_from(key, CapSpan { most, since, until }).await
        }
        None => Ok(None),
    }
}

/// Signals the key's workflow about changed preferences. Starts none, because then no window is open. The
/// change counts even if this fails: admission compares revisions.
///
/// # Errors
/// If Temporal fails, or has no such namespace.
pub async fn signal_key(client: &Client, key: &Key) -> Result<(), WorkflowInteractionError> {
    signal_workflow(client, key.workflow_id()).await
}

const WAKE: Duration = Duration::from_secs(2);
/// [`wake_windows`] signals this many windows concurrently, since one request may affect thousands.
const WAKES: usize = 32;

/// Signals the keys' open windows to read `news` from the store. They do so anyway when due, so a failure
/// only delays status and deadline.
pub async fn wake_windows<E: Display>(
    client: Result<&Client, E>,
    names: &FormerNames,
    keys: impl IntoIterator<Item = &Key>,
    news: &str,
) {
    let client = &client.map_err(|error| error.to_string());
    let keys: Vec<_> = keys.into_iter().flat_map(|key| names.all_keys(key)).collect();
    let tell_one = async |key: &Key| {
        let told =
            async { signal_key(client.as_ref().map_err(Clone::clone)?, key).await.map_err(|error| error.to_string()) };
        let told = timeout(WAKE, told).await.unwrap_or_else(|_| Err("Temporal does not answer".to_owned()));
        if let Err(why) = told {
            tracing::warn!(%key, why, "cannot signal window about {news}; it will notice at its deadline");
        }
    };
    for some in keys.chunks(WAKES) {
        join_all(some.iter().map(&tell_one)).await;
    }
}

/// Signals a digest or message workflow to read the store again. Starts no workflow.
///
/// # Errors
/// As for [`signal_key`].
pub async fn signal_workflow(client: &Client, workflow_id: String) -> Result<(), WorkflowInteractionError> {
    let span = signal_span(&workflow_id);
    let workflow = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
    let signal = UntypedSignal::new(PREFERENCES_SIGNAL);
    // `RawValue::empty()` would send one empty argument.
    match workflow.signal(signal, RawValue::default(), WorkflowSignalOptions::default()).instrument(span).await {
        Err(WorkflowInteractionError::NotFound(refusal)) => {
            tidings_client::check_namespace(&refusal).map_err(|missing| WorkflowInteractionError::Other(missing.into()))
        }
        answer => answer,
    }
}

fn signal_span(workflow_id: &str) -> Span {
    let message = MessageKey::from_workflow_id(workflow_id).map(|key| display(key.message_id()));
    let key = message.is_none().then_some(workflow_id);
    debug_span!("temporal", call = "signal", key, message)
}

fn digest_settings<'a>(settings: &'a Settings, key: &Key) -> Result<&'a DigestSettings, PreferencesError> {
    settings.digest(key).ok_or_else(|| PreferencesError::UnknownType(key.digest_type.clone()))
}

fn entry(order: &CommandContext, action: &str, now: Timestamp) -> Result<AuditEntry, InvalidField> {
    order.check()?;
    Ok(order.audit_entry(action, now))
}

/// A recipient's preferences for a digest type, and the values in force after applying the configuration.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreferencesView<'a> {
    key: &'a Key,
    revision: u64,
    changed_at: Option<Timestamp>,
    chosen: Preferences,
    in_force: EffectiveSchedule,
    /// Without the recipient's choices.
    default: EffectiveSchedule,
    /// The cadences that the digest type offers.
    choices: Vec<String>,
    paused_until: Option<Timestamp>,
    /// An operator's pause for the tenant or digest type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<&'a PauseDetails>,
    consent: bool,
    suppressed: Option<tidings_model::records::SuppressionReason>,
}

impl<'a> PreferencesView<'a> {
    #[must_use]
    pub fn new(
        settings: &DigestSettings,
        limits: &FrequencyLimits,
        capped_from: Option<Timestamp>,
        facts: &'a KeyFacts,
        key: &'a Key,
        now: Timestamp,
    ) -> Self {
        let (preferences, reading) = (Preferences::default(), EngagementTimes::default());
        let unchosen = KeyFacts { preferences, reading, ..facts.clone() };
        Self {
            key,
            revision: facts.revision,
            changed_at: facts.changed_at,
            chosen: Preferences { off: settings.off_today(&facts.preferences.off), ..facts.preferences.clone() },
            in_force: EffectiveSchedule::new(settings, limits, capped_from, facts, key, now),
            default: EffectiveSchedule::new(settings, limits, capped_from, &unchosen, key, now),
            choices: settings.choices.entries().iter().map(ToString::to_string).collect(),
            paused_until: facts.preferences.paused_until.filter(|until| *until > now),
            pause: facts.pause.as_ref().filter(|pause| pause.in_force(now)),
            consent: facts.consent,
            suppressed: facts.suppressed,
        }
    }

    fn silence_reason(&self) -> String {
        if !self.consent {
            "never: the recipient opted out".to_owned()
        } else if let Some(reason) = self.suppressed {
            format!("never: the address is suppressed: {reason}")
        } else if let Some(pause) = self.pause {
            pause.to_string()
        } else if let Some(until) = self.paused_until {
            format!("paused until {}", in_zone(until, &self.in_force.zone))
        } else {
            "never: the cadence sends nothing".to_owned()
        }
    }
}

impl fmt::Display for PreferencesView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_force, default, chosen, .. } = self;
        let zone = &in_force.zone;
        let changed = self.changed_at.map(|at| format!(", changed {}", in_zone(at, zone))).unwrap_or_default();
        write!(f, "{}: revision {}{changed}", self.key, self.revision)?;
        let quiet = |times: &[String]| if times.is_empty() { "none".to_owned() } else { times.join(", ") };
        let cadence = chosen.cadence.is_some() || chosen.at.is_some();
        for (name, value, is_chosen, default) in [
            ("cadence", &in_force.cadence, cadence, &default.cadence),
            ("zone", &in_force.zone, chosen.zone.is_some(), &default.zone),
            ("quiet", &quiet(&in_force.quiet), chosen.quiet.is_some(), &quiet(&default.quiet)),
        ] {
            let adapted = in_force.adapted_since.filter(|_| name == "cadence");
            let unknown = in_force.unknown_zone.as_ref().filter(|_| name == "zone");
            let whose = match (is_chosen, adapted, unknown) {
                (.., Some(unknown)) => {
                    format!("in place of {unknown:?}, which is no IANA time zone: choose another one")
                }
                (_, Some(since), None) => {
                    format!("adapted, as nothing was opened since {}; the default is {default}", since.strftime("%F"))
                }
                (true, None, None) => format!("chosen; the default is {default}"),
                (false, None, None) => "the default".to_owned(),
            };
            write!(f, "\n  {name:<8} {value}  ({whose})")?;
        }
        if !chosen.off.is_empty() {
            let off: Vec<_> = chosen.off.iter().map(String::as_str).collect();
            write!(f, "\n  off      {}", off.join(", "))?;
        }
        write!(f, "\n  choices  {}", self.choices.join(", "))?;
        match &in_force.next {
            Some(next) => write!(f, "\n  next     {}, if an event came now: {}", in_zone(next.due_at, zone), next.why),
            None => write!(f, "\n  next     {}", self.silence_reason()),
        }
    }
}

fn in_zone(at: Timestamp, zone: &str) -> String {
    when::local_time(at, known_zone(zone).unwrap_or(TimeZone::UTC))
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
