//! The plan of a window in words. The ledger keeps them for operators, also after the window's events are purged.

use serde::{Deserialize, Serialize};

use super::plan::Plan;

/// The text between two steps of a plan.
pub const THEN: &str = "; then ";

/// The reason for the time at which a window is claimed or ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Every step that led to the time, in words.
    pub why: String,
    /// The cadence in the syntax of `tidings.toml`. Empty: a former version made the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cadence: String,
    /// IANA name of the zone. Empty: a former version made the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
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
