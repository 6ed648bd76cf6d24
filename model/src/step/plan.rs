//! `plan`: a window is about to open, or its deadline may have moved. The answer says when the window is due.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Content, Key, Slide,
    pause::Paused,
    settings::{FrequencyLimits, OverLimit},
    step::ledger::Returned,
    window::{DeadlineBasis, Planned, THEN},
};

/// The input of `plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind. A former version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// The key of the window.
    pub key: Key,
    /// The facts about the events that the deadline depends on.
    #[serde(flatten)]
    pub signs: Signs,
    /// The window's digest, if the window is open already and some of its events may be in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Uuid>,
    /// The ids of pending events that are to be compared with the ledger: a page of those that no plan has seen.
    pub event_ids: Vec<String>,
    /// The content of each. A former version does not send them: then any content counts as equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<Content>,
    /// Set if the events waited behind a digest that was not delivered at once. They then go out together (rule 7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    /// The plan so far, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Plan>,
    /// The time of an operator's `retime`, which asks for the deadline that today's configuration makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew_at: Option<Timestamp>,
    /// The kind of events that joined the window since the plan so far, which knew only the other kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// See [`SendInput::opens_returned`](super::SendInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
}

impl PlanInput {
    /// The input without a plan that a worker made before it knew the digest type: that plan chose no deadline.
    #[must_use]
    pub fn without_provisional(&self) -> Cow<'_, Self> {
        match &self.before {
            Some(before) if before.is_provisional() => Cow::Owned(Self { before: None, ..self.clone() }),
            _ => Cow::Borrowed(self),
        }
    }
}

/// A kind of events in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Joined {
    /// Events that arrived.
    Own,
    /// Events that a failed digest returned.
    Returned,
}

/// The facts about a window's events that its deadline depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signs {
    /// Arrival of the first event, or the return that opened the window if no event has arrived.
    pub opened_at: Timestamp,
    /// The category of the first event; `None` if the workflow no longer has that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Arrival of the latest event.
    pub last_at: Timestamp,
    /// Arrival of the first urgent event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent_at: Option<Timestamp>,
    /// The first return of events that join the window (rule 25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_at: Option<Timestamp>,
    /// Set if the window has returned events only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_returned: bool,
}

/// The answer of `plan`. The workflow keeps it until the window closes: a later change of `tidings.toml` moves nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Ids among the input's that the ledger already has, in digests that ended or in the open window's. Their events open no
    /// window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// Events of failed digests that wait for a window, if some of the input's events are known. After a recovery the workflow
    /// learns of them here. Only for a workflow that [opens one](PlanInput::opens_returned).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    /// Time when the window is due.
    pub due_at: Timestamp,
    /// Every step that led to `due_at`, in words.
    pub why: String,
    /// Number of events that fill the window and make it due. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u32>,
    /// The rule by which later events move the deadline; `None`: they do not move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slide: Option<Slide>,
    /// Set if an urgent event made the window due: throttle and quiet hours do not apply (rule 14).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// The deadline that the window had before the recipient's choices moved it. `None`: they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_at: Option<Timestamp>,
    /// The schedule of later windows, in words, where this one keeps the deadline of an earlier schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// End of the recipient's pause; a due window waits for it (rule 15). For the status: admission checks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// The next good moment after the pauses (rule 56), where that is later than their end. For the status: admission checks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// The operator's pause that covers the key. The due window waits for its end, urgent and flushed windows included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseWait>,
    /// The revision of the recipient's preferences that the plan is made from, or [`Self::PROVISIONAL`].
    #[serde(default)]
    pub revision: u64,
    /// The settings that the deadline follows, in words, as far as the recipient can choose them. For people to read.
    #[serde(default)]
    pub follows: String,
    /// The same settings as values. A plan of an older version has only the words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<DeadlineBasis>,
    /// Time for which an idle run waits for another event before it completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Duration>,
    /// The time for which the made message waits, so that an operator can take it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Duration>,
    /// The throttle, the cap and their effects, which the window keeps (rule 16). `None`: an older version made the plan, and
    /// those of today's configuration apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FrequencyLimits>,
    /// The key's share of the spread, for what is overdue after a release of many keys (rule 30). An older version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Duration>,
    /// The limits that were exhausted at the plan, in the order of admission. For the status: admission checks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limited: Vec<Limited>,
}

impl Plan {
    /// The revision of a plan that was made without the table of its digest type. No preferences have it, so that the claim asks for
    /// another plan when the table is there.
    pub const PROVISIONAL: u64 = u64::MAX;

    /// Reports a plan that was made without the table of its digest type (rule 33).
    #[must_use]
    pub const fn is_provisional(&self) -> bool {
        self.revision == Self::PROVISIONAL && self.basis.is_none()
    }

    /// The plan as the answer to the input. After a provisional plan it keeps the revision of that one: the workflow would take the
    /// table's deadline for a choice of the recipient. The claim then asks for a plan with the right one, which moves nothing.
    #[must_use]
    pub fn in_place_of(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if before.is_provisional() => Self { revision: Self::PROVISIONAL, ..self },
            _ => self,
        }
    }
}

/// A throttle or a cap that is exhausted until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// The limit allows another digest from then on.
    pub until: Timestamp,
    /// Treatment of a window that is due before.
    pub over: OverLimit,
    /// The limit and the time in words.
    pub why: String,
}

impl Planned {
    /// Words about a plan: the steps of the plan, then the `later` steps that moved the time, without empty and repeated ones.
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

// A pause in the answers of steps.

/// The wait of a window, a digest or a message for the end of a pause (rule 35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseWait {
    #[serde(flatten)]
    pub paused: Paused,
    /// Time to ask the store again if no signal comes before.
    pub look_at: Timestamp,
    /// The key's own share of the spread. It passes between a resume and what is overdue (rule 30).
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
        let told = |later: &[&str]| Planned::new(&plan, later).why;
        assert_eq!(told(&["daily 09:00 -> nine", ""]), "daily 09:00 -> nine");
        assert_eq!(told(&["throttle -> ten", "flushed"]), "daily 09:00 -> nine; then throttle -> ten; then flushed");
        let Planned { cadence, zone, .. } = Planned::new(&plan, &[]);
        assert_eq!((cadence.as_str(), zone.as_str()), ("daily 09:00", "Europe/Berlin"));
        assert_eq!(Planned::new(&Plan { basis: None, ..plan }, &[]).zone, "");
    }
}
