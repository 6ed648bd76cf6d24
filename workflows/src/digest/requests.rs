//! The requests of people that the workflow has not carried out yet, as part of the state.
//!
//! Runs hand these over as JSON. Workers of other versions read and write the same fields.

use serde::{Deserialize, Serialize};
use tidings_model::command::{Order, Reopen, Reopened};

/// The recipient's preferences, seen from the plan of the open window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PreferencesFields", into = "PreferencesFields")]
pub(crate) enum Preferences {
    /// No change is known that the plan does not follow.
    #[default]
    Current,
    /// They changed after the window was planned.
    Changed,
    /// They changed before a plan was asked for. Its answer has not counted yet.
    Planning,
}

/// An operator's drop: everything ends without a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drop {
    pub order: Order,
    /// The number of pending events that the drop ends, from the first on. Later events are not dropped, unless a run had to
    /// leave all of them behind ([`State::leave_behind`](super::state::State::leave_behind)).
    pub events: usize,
}

/// An operator's request to resume a digest, and its answer until the command returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Reopen", into = "Reopen")]
pub(crate) struct Reopening {
    pub request: Reopen,
    pub answer: Option<Reopened>,
}

impl Reopening {
    /// Reports a request without an answer.
    pub fn is_asked(reopening: Option<&Self>) -> bool {
        reopening.is_some_and(|reopening| reopening.answer.is_none())
    }

    /// Reports that the next run has nothing to do. The command that waits for an answer belongs to this run.
    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub fn is_over(reopening: &Option<Self>) -> bool {
        !Self::is_asked(reopening.as_ref())
    }
}

impl From<Reopen> for Reopening {
    fn from(request: Reopen) -> Self {
        Self { request, answer: None }
    }
}

impl From<Reopening> for Reopen {
    fn from(reopening: Reopening) -> Self {
        reopening.request
    }
}

/// The fields of [`Preferences`] in a state.
#[derive(Serialize, Deserialize)]
struct PreferencesFields {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    changed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unanswered: bool,
}

impl From<PreferencesFields> for Preferences {
    fn from(PreferencesFields { changed, unanswered }: PreferencesFields) -> Self {
        match (changed, unanswered) {
            // The plan under way does not count: another one follows.
            (true, _) => Self::Changed,
            (false, true) => Self::Planning,
            (false, false) => Self::Current,
        }
    }
}

impl From<Preferences> for PreferencesFields {
    fn from(preferences: Preferences) -> Self {
        Self { changed: preferences == Preferences::Changed, unanswered: preferences == Preferences::Planning }
    }
}

/// The fields of a [`Drop`] in a state.
pub(crate) mod drop_fields {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tidings_model::command::Order;

    use super::Drop;

    #[derive(Serialize, Deserialize)]
    struct Fields {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropping: Option<Order>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropping_events: Option<usize>,
    }

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub fn serialize<S: Serializer>(drop: &Option<Drop>, serializer: S) -> Result<S::Ok, S::Error> {
        let (dropping, dropping_events) = drop.clone().map(|Drop { order, events }| (order, events)).unzip();
        Fields { dropping, dropping_events }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Drop>, D::Error> {
        let Fields { dropping, dropping_events } = Fields::deserialize(deserializer)?;
        Ok(dropping.map(|order| Drop { order, events: dropping_events.unwrap_or(usize::MAX) }))
    }
}
