//! `plan`: computes when a window is due, because it opens or its deadline may have moved.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    EventContent, Key, SlidingDeadline,
    pause::PauseDetails,
    settings::{FrequencyLimits, OverLimit},
    step::ledger::ReturnedEvents,
    window::{DeadlineBasis, PlanSummary, THEN},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanInput {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    pub key: Key,
    #[serde(flatten)]
    pub signs: DeadlineInputs,
    /// The open window's digest, if the ledger may have some of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Uuid>,
    /// Pending event ids to compare with the ledger: one page of those not yet in any plan.
    pub event_ids: Vec<String>,
    /// Each event id's content. Earlier versions do not send it; any content then counts as equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<EventContent>,
    /// The events waited behind a digest whose delivery took longer, and should be sent together (rule 7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Plan>,
    /// An operator's `retime`: compute the deadline anew from today's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew_at: Option<Timestamp>,
    /// Events of this kind joined the window after a plan which only covered the other kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<EventOrigin>,
    /// See [`SendInput::opens_returned`](super::SendDigestInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
}

impl PlanInput {
    #[must_use]
    pub fn without_provisional(&self) -> Cow<'_, Self> {
        match &self.before {
            Some(before) if before.is_provisional() => Cow::Owned(Self { before: None, ..self.clone() }),
            _ => Cow::Borrowed(self),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventOrigin {
    Own,
    Returned,
}

/// The facts which a window's deadline depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlineInputs {
    /// Arrival of the first event, or else when the events opening the window were returned.
    pub opened_at: Timestamp,
    /// Category of the first event; `None` if the workflow no longer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    pub last_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent_at: Option<Timestamp>,
    /// When events joining the window were first returned (rule 25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_returned: bool,
}

/// A window's plan, kept until it closes, so later changes in `tidings.toml` do not move the deadline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Ids from the input which the ledger already has, in closed digests or the open window's. These do not
    /// open a window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// Returned events waiting for a window; a recovered workflow finds them this way. Only set if the
    /// workflow [opens one](PlanInput::opens_returned).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<ReturnedEvents>,
    pub due_at: Timestamp,
    pub why: String,
    /// This many events make the window due; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u32>,
    /// How later events move the deadline; `None` if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slide: Option<SlidingDeadline>,
    /// An urgent event made the window due: throttle and quiet hours do not apply (rule 14).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// The deadline before the recipient's changes moved it; `None` if they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_at: Option<Timestamp>,
    /// The schedule of later windows in words, if this one keeps an earlier schedule's deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// End of the recipient's pause (rule 15). Only for the status; admission checks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// The next good moment after the pauses (rule 56), if later. Only for the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// The operator's pause of this key, for which even urgent and flushed windows wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseWait>,
    /// The revision of the recipient's preferences in this plan, or [`Self::PROVISIONAL`].
    #[serde(default)]
    pub revision: u64,
    /// The settings behind the deadline, as far as recipients can choose them, in words.
    #[serde(default)]
    pub follows: String,
    /// The same settings as values. Plans by older versions only have `follows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<DeadlineBasis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Duration>,
    /// The limits this window keeps (rule 16). `None` from older versions; today's then apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FrequencyLimits>,
    /// The key's share of the spread, if it is overdue and released with many others (rule 30). `None` from
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Duration>,
    /// Limits already exhausted, in admission order. Only for the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limited: Vec<ExhaustedLimit>,
}

impl Plan {
    /// Marks plans made without a configured digest type. It matches no preferences, so the claim asks for
    /// another plan once the type is configured.
    pub const PROVISIONAL: u64 = u64::MAX;

    /// Returns `true` if the digest type was not configured (rule 33).
    #[must_use]
    pub const fn is_provisional(&self) -> bool {
        self.revision == Self::PROVISIONAL && self.basis.is_none()
    }

    /// Prepares the plan for a workflow whose plan is `before`. If that is provisional, we keep its revision:
    /// otherwise the workflow would mistake the new deadline for a recipient's choice. The next plan with the
    /// right revision moves nothing.
    #[must_use]
    pub fn in_place_of(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if before.is_provisional() => Self { revision: Self::PROVISIONAL, ..self },
            _ => self,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExhaustedLimit {
    pub until: Timestamp,
    /// How to treat a window due before `until`.
    pub over: OverLimit,
    pub why: String,
}

impl PlanSummary {
    /// Joins the plan's explanation and the `later` steps that moved its time, without empty or repeated
    /// ones.
    #[must_use]
    pub fn new(plan: &Plan, later: &[&str]) -> Self {
        let mut steps = vec![plan.why.as_str()];
        for step in later {
            if !step.is_empty() && !steps.contains(step) {
                steps.push(step);
            }
        }
        steps.retain(|step| !step.is_empty());
        let (cadence, zone) =
            plan.basis.as_ref().map(|basis| (basis.cadence.clone(), basis.zone.clone())).unwrap_or_default();
        Self { why: steps.join(THEN), cadence, zone }
    }
}

/// How a window, digest or message waits for the end of a pause (rule 35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseWait {
    #[serde(flatten)]
    pub paused: PauseDetails,
    /// When to poll the store without a signal.
    pub look_at: Timestamp,
    /// The key's share of the spread: how long it waits after the pause if overdue (rule 30).
    pub share: Duration,
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn each_step_is_told_once_and_in_order() {
        let plan = json!({"due_at": "2026-03-01T09:00:00Z", "why": "daily 09:00 -> nine",
                          "basis": {"cadence": "daily 09:00", "zone": "Europe/Berlin", "quiet": []}});
        let plan: Plan = from_value(plan).unwrap();
        let told = |later: &[&str]| PlanSummary::new(&plan, later).why;
        assert_eq!(told(&["daily 09:00 -> nine", ""]), "daily 09:00 -> nine");
        assert_eq!(told(&["throttle -> ten", "flushed"]), "daily 09:00 -> nine; then throttle -> ten; then flushed");
        let PlanSummary { cadence, zone, .. } = PlanSummary::new(&plan, &[]);
        assert_eq!((cadence.as_str(), zone.as_str()), ("daily 09:00", "Europe/Berlin"));
        assert_eq!(PlanSummary::new(&Plan { basis: None, ..plan }, &[]).zone, "");
    }
}
