//! Temporal runs in trouble (rule 54): ended by Temporal or a person instead of our code, or open but
//! impossible for our workers to execute. The sweep recovers those not ended by a person, and lists the
//! others with a remedy.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{Key, MessageKey, StoredWait, names};

/// Poll interval of the sweep, over all workers.
pub const LOOK: SignedDuration = SignedDuration::from_secs(5);
/// Another worker then takes over an unfinished poll.
pub const LEASE: SignedDuration = SignedDuration::from_mins(1);
/// Another worker then takes over an unrecovered run.
pub const RECOVERY_LEASE: SignedDuration = SignedDuration::from_mins(5);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_hours(1);
/// Overlap of consecutive polls, because visibility lags and clocks differ between worker and server.
pub const REACH: SignedDuration = SignedDuration::from_mins(3);
/// Overlap of an occasional far poll, in case visibility was unavailable for longer.
pub const FAR_REACH: SignedDuration = SignedDuration::from_hours(1);
pub const LOOK_FAR: SignedDuration = SignedDuration::from_mins(5);
/// Minimum interval between polls for open runs in trouble: expensive, because it lists all open runs and not
/// only recent ones.
pub const LOOK_OPEN: SignedDuration = LOOK;
/// Resolved runs are deleted at this age. Temporal has usually deleted their histories long before.
pub const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

impl StoredWait {
    pub const SWEEP_LEASE: Self = Self::with_longest(LEASE.unsigned_abs());
    /// Retry of a run in trouble, including [`RECOVERY_LEASE`].
    pub const RUN_RETRY: Self = Self::with_longest(LONGEST_RETRY.unsigned_abs());
}

/// After this many recoveries of one workflow id within a day, an operator must decide. Otherwise we would
/// recover a failing run for ever.
pub const MOST_RECOVERIES: u64 = 10;
pub const RECOVERIES_WITHIN: SignedDuration = SignedDuration::from_hours(24);
pub const MOST_TRIES: u32 = 5;

closed_set! {
    pub enum RunTrouble {
        /// Terminated by a call: a person's, a producer's start, a reset, or a server limit.
        Terminated = "terminated",
        /// Ran into a timeout set by its producer or the namespace.
        TimedOut = "timed_out",
        /// Its workflow id is not a key.
        Failed = "failed",
        /// Open with one of our ids but another workflow type: no worker can execute it.
        WrongType = "wrong_type",
        /// Open with one of our ids but on another task queue: our workers never get it.
        WrongQueue = "wrong_queue",
        Paused = "paused",
    }
}

impl RunTrouble {
    #[must_use]
    pub const fn trouble_phrase(self) -> &'static str {
        match self {
            Self::Terminated => "terminated at",
            Self::TimedOut => "timed out at",
            Self::Failed => "failed at",
            Self::WrongType => "of another workflow type, started at",
            Self::WrongQueue => "of another task queue, started at",
            Self::Paused => "paused in Temporal, started at",
        }
    }

    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Terminated | Self::TimedOut | Self::Failed)
    }
}

closed_set! {
    pub enum RunResolution {
        Recovered = "recovered",
        ByHand = "by_hand",
        Dismissed = "dismissed",
        /// An open run ended, or is no longer in trouble.
        Over = "over",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RunId {
    pub workflow_id: String,
    pub run_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    pub id: RunId,
    pub trouble: RunTrouble,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRun {
    pub run: FoundRun,
    /// Including this one.
    pub tries: u32,
}

/// A run in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TroubledRun {
    pub workflow_id: String,
    pub run_id: String,
    pub trouble: RunTrouble,
    /// The time of the end, or the start of an open run.
    pub since: Timestamp,
    /// The identity that ended the run, by its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why the run was ended, or what keeps it from being recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The command to run.
    pub remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepProgress {
    pub until: Timestamp,
    pub far_at: Timestamp,
    pub open_at: Timestamp,
}

impl SweepProgress {
    /// For a new installation. Operators must handle earlier runs themselves.
    #[must_use]
    pub const fn start_at(now: Timestamp) -> Self {
        Self { until: now, far_at: now, open_at: Timestamp::UNIX_EPOCH }
    }

    #[must_use]
    pub fn next(self, now: Timestamp) -> SweepScope {
        let far = now.duration_since(self.far_at) >= LOOK_FAR;
        let reach = if far { FAR_REACH } else { REACH };
        // Even if the clock was wrong, we must not miss runs that ended since.
        let ended_since = self.until.min(now).saturating_sub(reach).unwrap_or(Timestamp::UNIX_EPOCH);
        let open = now.duration_since(self.open_at).abs() >= LOOK_OPEN;
        let far_at = if far || self.far_at > now { now } else { self.far_at };
        let open_at = if open { now } else { self.open_at };
        SweepScope { ended_since, open, far, then: Self { until: now, far_at, open_at } }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepScope {
    pub ended_since: Timestamp,
    pub open: bool,
    pub far: bool,
    pub then: SweepProgress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkflowOwner {
    Digest(Key),
    Message(MessageKey),
    Subscription(String),
    /// The id has one of our prefixes, but is invalid.
    Nobody,
}

impl WorkflowOwner {
    /// `task_queue` is the one for digests.
    #[must_use]
    pub fn from_workflow_id(workflow_id: &str, task_queue: &str) -> Self {
        let subscription = names::subscription_workflow_id(task_queue, "");
        if let Ok(key) = Key::from_workflow_id(workflow_id) {
            Self::Digest(key)
        } else if let Some(key) = MessageKey::from_workflow_id(workflow_id) {
            Self::Message(key)
        } else {
            let name = workflow_id.strip_prefix(&subscription).filter(|name| !name.is_empty());
            name.map_or(Self::Nobody, |name| Self::Subscription(name.to_owned()))
        }
    }

    #[must_use]
    pub fn tenant(&self) -> &str {
        match self {
            Self::Digest(key) => &key.tenant,
            Self::Message(key) => &key.tenant,
            Self::Subscription(_) | Self::Nobody => "",
        }
    }
}

/// Temporal's own history service. It terminates runs with a too large history, and runs replaced by a start
/// (`TerminateExisting`) or a reset.
const SERVER: [&str; 2] = ["history-service", "history-resetter"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryDecision {
    /// No person ended the run.
    Recover,
    List(&'static str),
}

/// `ended_by` is the identity in a terminated run's last event; `recovered` counts recoveries of its workflow
/// id within [`RECOVERIES_WITHIN`].
#[must_use]
pub fn decide_recovery(
    owner: &WorkflowOwner,
    trouble: RunTrouble,
    ended_by: Option<&str>,
    recovered: u64,
) -> RecoveryDecision {
    match trouble {
        _ if *owner == WorkflowOwner::Nobody => RecoveryDecision::List("the workflow id is no key of ours"),
        // This is always safe, because the database has all notices.
        _ if matches!(owner, WorkflowOwner::Subscription(_)) => RecoveryDecision::Recover,
        RunTrouble::Terminated if ended_by.is_some_and(|identity| SERVER.contains(&identity)) => {
            RecoveryDecision::Recover
        }
        RunTrouble::Terminated => RecoveryDecision::List(""),
        _ if recovered >= MOST_RECOVERIES => {
            RecoveryDecision::List("runs of this id were recovered ten times within a day")
        }
        _ => RecoveryDecision::Recover,
    }
}

/// Backoff before the next recovery: one minute after the first try, then doubling up to an hour.
#[must_use]
pub fn try_again_after(tries: u32) -> Duration {
    let doubled = Duration::from_mins(1) * 2_u32.saturating_pow(tries.saturating_sub(1).min(6));
    doubled.min(LONGEST_RETRY.unsigned_abs())
}

#[must_use]
pub fn remedy_command(owner: &WorkflowOwner, id: &RunId, trouble: RunTrouble) -> String {
    let RunId { workflow_id, run_id } = id;
    let in_temporal =
        |command: &str| format!("temporal workflow {command} --workflow-id '{workflow_id}' --run-id {run_id}");
    match (trouble, owner) {
        (RunTrouble::Paused, _) => in_temporal("unpause"),
        (_, WorkflowOwner::Digest(key)) => format!("tidings recover {key} --run {run_id} --why REASON"),
        (RunTrouble::WrongType | RunTrouble::WrongQueue, WorkflowOwner::Message(_)) => in_temporal("terminate"),
        (_, WorkflowOwner::Message(key)) => format!("tidings messages retry {} --why REASON", key.message_id()),
        (RunTrouble::WrongType | RunTrouble::WrongQueue, _) => in_temporal("terminate"),
        (_, WorkflowOwner::Subscription(_) | WorkflowOwner::Nobody) => {
            format!("tidings runs dismiss '{workflow_id}' --run {run_id} --why REASON")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "tidings";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_look_reaches_back_and_now_and_then_further() {
        let first = SweepProgress::start_at(at(0));
        let look = first.next(at(5));
        assert_eq!((look.ended_since, look.open, look.far), (at(-180), true, false));
        let look = look.then.next(at(9));
        assert_eq!((look.ended_since, look.open, look.far), (at(5 - 180), false, false));
        let look = look.then.next(at(20));
        assert_eq!((look.ended_since, look.open, look.far), (at(9 - 180), true, false));
        let look = look.then.next(at(300));
        assert_eq!((look.ended_since, look.far), (at(20 - 3600), true));
        assert!(!look.then.next(at(305)).far);
        // The workers were away for a day, or a clock was ahead.
        assert_eq!(look.then.next(at(300 + 86_400)).ended_since, at(300 - 3600));
        assert_eq!(SweepProgress::start_at(at(900)).next(at(5)).ended_since, at(5 - 180));
    }

    #[test]
    fn only_what_nobody_ended_on_purpose_is_recovered() {
        use RunTrouble::{Failed, Terminated, TimedOut};
        let list = RecoveryDecision::List;
        let often = list("runs of this id were recovered ten times within a day");
        for (id, trouble, by, recovered, expected) in [
            ("digest/acme/activity/ann", TimedOut, None, 9, RecoveryDecision::Recover),
            ("digest/acme/activity/ann", TimedOut, None, 10, often),
            ("digest/acme/activity/ann", Failed, None, 0, RecoveryDecision::Recover),
            ("digest/acme/activity/ann", Terminated, Some("history-service"), 99, RecoveryDecision::Recover),
            ("digest/acme/activity/ann", Terminated, Some("history-resetter"), 99, RecoveryDecision::Recover),
            ("digest/acme/activity/ann", Terminated, Some("temporal-cli:ann@desk"), 0, list("")),
            ("digest/acme/activity/ann", Terminated, Some(""), 0, list("")),
            ("digest/acme/activity/ann", Terminated, None, 0, list("")),
            ("message/acme/welcome", TimedOut, None, 0, RecoveryDecision::Recover),
            ("subscription/tidings/crm", Terminated, Some("temporal-cli:ann@desk"), 99, RecoveryDecision::Recover),
            ("digest/acme", Failed, None, 0, list("the workflow id is no key of ours")),
            ("subscription/other/crm", TimedOut, None, 0, list("the workflow id is no key of ours")),
        ] {
            assert_eq!(
                decide_recovery(&WorkflowOwner::from_workflow_id(id, QUEUE), trouble, by, recovered),
                expected,
                "{id} {trouble} {by:?}"
            );
        }
    }

    #[test]
    fn each_run_in_the_list_has_a_command() {
        for (id, trouble, expected) in [
            (
                "digest/acme/activity/ann",
                RunTrouble::Terminated,
                "tidings recover acme/activity/ann --run r1 --why REASON",
            ),
            (
                "digest/acme/activity/ann",
                RunTrouble::WrongType,
                "tidings recover acme/activity/ann --run r1 --why REASON",
            ),
            (
                "digest/acme/activity/ann",
                RunTrouble::Paused,
                "temporal workflow unpause --workflow-id 'digest/acme/activity/ann' --run-id r1",
            ),
            (
                "message/acme/welcome",
                RunTrouble::TimedOut,
                "tidings messages retry 6ad8bd75-76ac-5f2a-a44b-2e7a3a3ae4a6 --why REASON",
            ),
            (
                "message/acme/welcome",
                RunTrouble::WrongQueue,
                "temporal workflow terminate --workflow-id 'message/acme/welcome' --run-id r1",
            ),
            ("digest/acme", RunTrouble::Failed, "tidings runs dismiss 'digest/acme' --run r1 --why REASON"),
        ] {
            let run = RunId { workflow_id: id.into(), run_id: "r1".into() };
            let mut told = remedy_command(&WorkflowOwner::from_workflow_id(id, QUEUE), &run, trouble);
            if let WorkflowOwner::Message(key) = WorkflowOwner::from_workflow_id(id, QUEUE) {
                told = told.replace(&key.message_id().to_string(), "6ad8bd75-76ac-5f2a-a44b-2e7a3a3ae4a6");
            }
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn tries_come_ever_later_and_hourly_at_last() {
        let minutes = |tries| try_again_after(tries).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 6, 7, 99].map(minutes), [1, 1, 2, 4, 32, 60, 60]);
    }
}
