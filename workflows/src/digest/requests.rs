//! Requests in the state that the workflow has not carried out yet.
//!
//! Runs pass these on as JSON, so workers in other versions must read and write the same fields.

use serde::{Deserialize, Serialize};
use tidings_model::command::{CommandContext, ReopenCommand, ReopenResult};

/// The recipient's preferences relative to the open window's plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PreferencesFields", into = "PreferencesFields")]
pub(crate) enum PreferencesState {
    /// The plan is up to date.
    #[default]
    Current,
    /// Changed after the window was planned.
    Changed,
    /// Changed before the pending plan request, which has not returned yet.
    Planning,
}

/// Ends everything without a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DropRequest {
    pub order: CommandContext,
    /// Events to drop, from the first pending one. Later events are kept, unless a run had to leave all of them
    /// behind ([`State::leave_behind`](super::state::State::leave_behind)).
    pub events: usize,
}

/// Keeps the answer until the command returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReopenCommand", into = "ReopenCommand")]
pub(crate) struct ReopenRequest {
    pub request: ReopenCommand,
    pub answer: Option<ReopenResult>,
}

impl ReopenRequest {
    pub fn is_asked(reopening: Option<&Self>) -> bool {
        reopening.is_some_and(|reopening| reopening.answer.is_none())
    }

    /// The waiting command belongs to this run, so the next has nothing to do.
    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub fn is_over(reopening: &Option<Self>) -> bool {
        !Self::is_asked(reopening.as_ref())
    }
}

impl From<ReopenCommand> for ReopenRequest {
    fn from(request: ReopenCommand) -> Self {
        Self { request, answer: None }
    }
}

impl From<ReopenRequest> for ReopenCommand {
    fn from(reopening: ReopenRequest) -> Self {
        reopening.request
    }
}

#[derive(Serialize, Deserialize)]
struct PreferencesFields {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    changed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unanswered: bool,
}

impl From<PreferencesFields> for PreferencesState {
    fn from(PreferencesFields { changed, unanswered }: PreferencesFields) -> Self {
        match (changed, unanswered) {
            // Ignore the running plan, because another one will follow.
            (true, _) => Self::Changed,
            (false, true) => Self::Planning,
            (false, false) => Self::Current,
        }
    }
}

impl From<PreferencesState> for PreferencesFields {
    fn from(preferences: PreferencesState) -> Self {
        Self {
            changed: preferences == PreferencesState::Changed,
            unanswered: preferences == PreferencesState::Planning,
        }
    }
}

pub(crate) mod drop_fields {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tidings_model::command::CommandContext;

    use super::DropRequest;

    #[derive(Serialize, Deserialize)]
    struct DropFields {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropping: Option<CommandContext>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropping_events: Option<usize>,
    }

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub fn serialize<S: Serializer>(drop: &Option<DropRequest>, serializer: S) -> Result<S::Ok, S::Error> {
        let (dropping, dropping_events) = drop.clone().map(|DropRequest { order, events }| (order, events)).unzip();
        DropFields { dropping, dropping_events }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DropRequest>, D::Error> {
        let DropFields { dropping, dropping_events } = DropFields::deserialize(deserializer)?;
        Ok(dropping.map(|order| DropRequest { order, events: dropping_events.unwrap_or(usize::MAX) }))
    }
}
