//! Start options that a digest should not have (docs/producers.md), and the input of a run. A library may set
//! such options for every workflow it starts.

use std::{fmt, time::Duration};

use temporalio_common::protos::temporal::api::history::v1::WorkflowExecutionStartedEventAttributes as Started;
use temporalio_workflow::WorkflowContextView;
use tidings_model::{Event, Key, Retract};

use super::state::DigestRunState;
use crate::inbound::{CarriedState, UnreadableState};

/// Stands for "no timeout" when continuing as new, since a run would otherwise inherit the previous timeout.
pub(super) const NO_TIMEOUT: Duration = Duration::from_hours(24 * 3650);

/// Options that limit or repeat a run, although a digest should wait as long as it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartOptions {
    execution_timeout: Option<Duration>,
    run_timeout: Option<Duration>,
    has_retry_policy: bool,
    has_cron: bool,
}

impl StartOptions {
    pub fn new(ctx: &WorkflowContextView) -> Self {
        let set = |timeout: Option<Duration>| timeout.filter(|timeout| *timeout > Duration::ZERO);
        Self {
            execution_timeout: set(ctx.execution_timeout()),
            run_timeout: set(ctx.run_timeout()).filter(|timeout| *timeout < NO_TIMEOUT),
            has_retry_policy: ctx.retry_policy().is_some(),
            has_cron: ctx.cron_schedule().is_some_and(|cron| !cron.is_empty()),
        }
    }

    /// Returns `true` if only the run has a timeout, so the next run can get a longer one. This could not
    /// exceed an execution timeout, which applies to the whole chain of runs.
    pub fn has_run_timeout_alone(&self) -> bool {
        self.run_timeout.is_some() && self.execution_timeout.is_none()
    }
}

/// One line per option; empty if there are none.
impl fmt::Display for StartOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(timeout) = self.execution_timeout.or(self.run_timeout) {
            let seconds = timeout.as_secs();
            write!(f, "\n\nThe start set a timeout of {seconds} s, after which Temporal ends the run: set none.")?;
        }
        for (is_set, name) in [(self.has_retry_policy, "retry policy"), (self.has_cron, "cron schedule")] {
            if is_set {
                write!(f, "\n\nThe start set a {name}: set none.")?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub struct RunInput {
    /// Pending events in a start argument, or valid ones in a signal.
    pub events: Vec<Event>,
    /// Retracts in a start argument were not in the store yet.
    pub retracts: Vec<Retract>,
    /// Only set by a start argument.
    pub runs: Vec<String>,
}

impl RunInput {
    /// # Errors
    /// The previous run's state cannot be read.
    pub fn from_started_event(started: Started) -> Result<Self, UnreadableState> {
        let continued = !started.continued_execution_run_id.is_empty();
        let carried = CarriedState::from(started.input.map(|input| input.payloads).unwrap_or_default());
        let id = started.workflow_id;
        let is_own = |state: &DigestRunState| id.is_empty() || state.key == Key::from_workflow_id(&id).ok();
        let state = carried.read::<DigestRunState>(continued)?.filter(is_own);
        let Some(state) = state else { return Ok(Self::default()) };
        let retracts = state.dated_retracts();
        let runs = state.open.into_iter().flat_map(|open| open.runs).collect();
        Ok(Self { events: state.pending.into_events(), retracts, runs })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{from_value, json};
    use temporalio_common::{
        data_converters::{
            PayloadConverter, SerializationContext, SerializationContextData, TemporalSerializable as _,
        },
        protos::temporal::api::common::v1::{Payload, Payloads},
    };

    use super::*;

    #[test]
    fn each_option_is_named_and_a_plain_start_says_nothing() {
        assert_eq!(StartOptions::default().to_string(), "");
        let all = StartOptions {
            execution_timeout: Some(Duration::from_mins(1)),
            run_timeout: Some(Duration::from_secs(30)),
            has_retry_policy: true,
            has_cron: true,
        };
        let said = all.to_string();
        for part in ["a timeout of 60 s", "a retry policy: set none", "a cron schedule: set none"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn only_a_timeout_of_the_run_alone_can_be_left_behind() {
        let run_timeout = Some(Duration::from_secs(30));
        let alone = StartOptions { run_timeout, ..StartOptions::default() };
        assert!(alone.has_run_timeout_alone());
        assert!(!StartOptions { execution_timeout: run_timeout, ..alone }.has_run_timeout_alone());
        assert!(!StartOptions::default().has_run_timeout_alone());
    }

    #[test]
    fn the_input_of_a_run_is_what_the_previous_run_handed_over() {
        let event: Event = from_value(json!({
            "event_id": "e1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"
        }))
        .unwrap();
        let retract = Retract::Event("e2".into());
        let mut state = DigestRunState::new(None, "first".into());
        assert!(state.pending.push(event.clone(), Timestamp::UNIX_EPOCH, None));
        state.retracts.insert(retract.clone());
        let carried = CarriedState::new(&state).unwrap();
        let (data, converter) = (SerializationContextData::None, PayloadConverter::default());
        let payload = carried.to_payload(&SerializationContext::new(&data, &converter)).unwrap();

        let input = RunInput::from_started_event(started("previous", payload.clone())).unwrap();
        assert_eq!((input.events, input.retracts, input.runs), (vec![event], vec![retract], vec![]));

        let cut = Payload { data: payload.data[..9].to_vec(), ..payload };
        let unreadable = RunInput::from_started_event(started("previous", cut.clone())).unwrap_err();
        assert_eq!(unreadable, UnreadableState { byte: 9, length: 9 });
        let first = RunInput::from_started_event(started("", cut)).unwrap();
        assert_eq!((first.events, first.retracts, first.runs), (vec![], vec![], vec![]));
    }

    fn started(previous: &str, argument: Payload) -> Started {
        let input = Some(Payloads { payloads: vec![argument] });
        Started { continued_execution_run_id: previous.to_owned(), input, ..Started::default() }
    }
}
