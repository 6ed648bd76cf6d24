//! The digest workflow: one per key (rule 2). Each turn of [`Digest::run`] makes a decision and carries it out.

use std::time::Duration;

use jiff::Timestamp;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, SyncWorkflowContext, TimerOptions, WorkflowCancellationToken, WorkflowContext,
    WorkflowContextView, WorkflowResult, WorkflowTermination,
};
use tidings_model::{
    Key,
    command::{
        CommandContext, DropResult, DuePreview, FlushResult, HoldCommand, HoldResult, ReleaseCommand, ReleaseResult,
        ReopenCommand, ReopenResult, RetimeCommand, RetimeResult,
    },
    decode::DecodedSignal,
    records::AuditActor,
};

use self::{
    decide::{
        DigestDecision, clear_finished_commands, deadline, decide, treats_repetitions, waits_for_first, waits_for_undo,
    },
    delivery::{apply_render, apply_reopen, apply_send, begin_send, leave_to_attempt, render_input, reopen_input},
    records::{apply_audit, apply_dead_letters, apply_retract, audit_input, dead_letters_input, retract_input},
    requests::ReopenRequest,
    start::{NO_TIMEOUT, StartOptions},
    state::{RepetitionMode, UnusedRunMode},
    window::{
        apply_claim, apply_close, apply_plan, apply_stash, apply_urgent, begin_close, begin_plan, begin_stash,
        begin_urgent, claim_input,
    },
};
use crate::{
    activities::DigestActivities as Activities,
    driver::{
        ActivityCalls,
        CallMode::{self, LocalFirst},
        DrivenWorkflow, ValidatorResult, call_activity, now, timestamp, wait, wait_until,
    },
    inbound::{CarriedState, CommandArgument, IgnoredPayload, InboundSignal, UnreadableState},
};

mod commands;
mod decide;
mod delivery;
mod pending;
mod records;
mod requests;
#[cfg(test)]
mod simulation;
mod start;
pub(crate) mod state;
mod status;
mod window;

pub(crate) use self::state::DigestRunState;
pub use self::{
    pending::{PAGE_BYTES, PAGE_EVENTS},
    start::RunInput,
    state::{DigestEnd, DigestSummary},
    status::{DeliveryStatus, DigestStage, DigestStatus},
};

/// Signals, commands and decisions per run before it continues as new. Each adds at most six events to the
/// history; the server warns at 10,240, and rejects the 10,001st signal.
const STEPS_PER_RUN: u32 = 1_000;

/// Signal bytes per run before it continues as new. An activity may repeat each event, and the server
/// terminates a run at 50 MiB.
const BYTES_PER_RUN: usize = 4 * 1024 * 1024;

/// Maximum length of a timer. The workflow decides again when it fires.
const LONGEST_WAIT: Duration = Duration::from_hours(30 * 24);

/// Patch: shorten a message in a separate step. Before, in the attempt.
const SHORTEN: &str = "shorten";

/// Patch: count only new events, and wait for more repetitions of known ones. Before, both counted, and a run
/// with nothing new completed immediately.
const REPETITIONS: &str = "repetitions";

/// Patch: a run without any event waits for more. Before, it completed immediately.
const FIRST_EVENT: &str = "first-event";

/// Patch: spread overdue digests after releasing many keys. Before, all went out immediately.
const SPREAD_RELEASE: &str = "spread-release";

/// Patch: delay a message so an operator can take it back. Before, it went out immediately.
const UNDO: &str = "undo";

/// Patch: ignore a hold that has already expired. Before, such a hold ended the previous one.
const PAST_HOLD: &str = "past-hold";

/// Patch: accept JSON as other languages write it. Before, we rejected whole numbers from 2^53 in a payload,
/// `2.0` in counts, and an entire signal for one broken event, and truncated fractional seconds.
const JSON: &str = "json";

/// Patch: distinguish events with the same id by content, and by the time of a retract; an urgent event we
/// already have hurries nothing. Before, the first content stayed, and a retract by id covered everything.
const CONTENT: &str = "content";

/// Patch: a flush of the key or a retry sends a message waiting for its next attempt immediately. Before, it
/// kept waiting.
const HURRY: &str = "hurry";

const NO_KEY: &str = "the workflow id is not digest/TENANT/TYPE/USER with each part percent-encoded";

/// Patch: leave a run with a timeout immediately. Before, the window was lost with the run.
const PAST_TIMEOUT: &str = "past-timeout";

#[workflow]
pub struct Digest {
    state: DigestRunState,
    start_options: StartOptions,
    unreadable: Option<UnreadableState>,
    run_id: String,
    /// Start of this run, until its first workflow task ends. The first signals arrived then, although a worker
    /// may read them much later, even after their window's slot.
    started_at: Option<Timestamp>,
    /// We count steps ourselves: in a replay with temporalio-workflow 1.1.1, the server's suggestion to
    /// continue as new may come one workflow task early. Remove this once `continue_as_new_suggested` is the
    /// same in every task of a replay.
    steps: u32,
    bytes: usize,
    /// Time of the last decision, because queries have no clock.
    decided_at: Timestamp,
    calls: ActivityCalls,
    /// Commands, and signals about the recipient or a pause.
    commands: u32,
    /// Commands waiting for their own workflow task to return. Continuing as new would lose them.
    answers: u32,
}

#[workflow_methods]
impl Digest {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let key = Key::from_workflow_id(ctx.workflow_id()).ok();
        let (state, unreadable) =
            carried.carried_state(ctx.continued_from_run_id().is_some(), |state: &DigestRunState| state.key == key);
        let state = state.unwrap_or_else(|| DigestRunState::new(key, ctx.first_execution_run_id().to_owned()));
        Self {
            state,
            start_options: StartOptions::new(ctx),
            unreadable,
            run_id: ctx.run_id().to_owned(),
            started_at: ctx.continued_from_run_id().is_none().then(|| timestamp(ctx.start_time())),
            steps: 0,
            bytes: 0,
            decided_at: Timestamp::MIN,
            calls: ActivityCalls::new(),
            commands: 0,
            answers: 0,
        }
    }

    /// Collects and delivers, and completes once nothing is pending or undelivered.
    ///
    /// # Errors
    /// Cancelled, after the ledger recorded every pending event. Failed, if the workflow id is not a key.
    #[run(name = "digest")] // names::WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<DigestSummary> {
        ctx.state(|w| w.unreadable.iter().for_each(UnreadableState::fail_task));
        ctx.state_mut(|w| w.started_at = None);
        if ctx.state(|w| w.start_options.has_run_timeout_alone()) && ctx.patched(PAST_TIMEOUT) {
            let options = ContinueAsNewOptions::builder().run_timeout(NO_TIMEOUT).build();
            Self::continue_as_new(ctx, options).await?;
        }
        loop {
            let now = now(ctx);
            let cancelled = ctx.cancellation_token().is_cancelled();
            let decision = ctx.state_mut(|w| {
                w.state.cancelled |= cancelled;
                clear_finished_commands(&mut w.state, now);
                w.decided_at = now;
                decide(&w.state, now)
            });
            ctx.set_current_details(ctx.state(|w| w.current_details(now)));
            if decision == DigestDecision::Finish {
                if ctx.all_handlers_finished() {
                    return Self::finish_run(ctx);
                }
                // Let waiting commands return first. Another command may also give this run more to do.
                wait_until(ctx, |w| decide(&w.state, now) != DigestDecision::Finish || ctx.all_handlers_finished())
                    .await;
                continue;
            }
            if ctx.state(Self::is_full) {
                Self::continue_as_new(ctx, ContinueAsNewOptions::default()).await?;
            }
            if ctx.state(|w| treats_repetitions(&w.state, decision)) && !ctx.patched(REPETITIONS) {
                ctx.state_mut(|w| w.state.repetitions = RepetitionMode::Counted);
                continue;
            }
            if ctx.state(|w| waits_for_first(&w.state, decision)) && !ctx.patched(FIRST_EVENT) {
                ctx.state_mut(|w| w.state.unused = UnusedRunMode::Ends);
                continue;
            }
            if ctx.state(|w| waits_for_undo(&w.state, decision)) && !ctx.patched(UNDO) {
                ctx.state_mut(|w| w.state.delivering.as_mut().map(delivery::DigestDelivery::end_undo));
                continue;
            }
            if decision == DigestDecision::CompareUrgent && !ctx.patched(CONTENT) {
                ctx.state_mut(|w| w.state.hurry_delivery());
                continue;
            }
            ctx.state_mut(|w| w.steps += 1);
            carry_out(ctx, decision).await;
        }
    }

    /// Accepts an event, a list of events or an `EventBatch`, as JSON or protobuf. Anything we cannot decode
    /// becomes a dead letter.
    #[signal(name = "events")] // names::SIGNAL
    pub fn events(&mut self, ctx: &mut SyncWorkflowContext<Self>, inbound: InboundSignal) {
        let now = timestamp(ctx.workflow_time());
        let started_at = self.started_at;
        let next_seq = self.state.malformed;
        self.bytes += inbound.bytes();
        let decoded = match &self.state.key {
            Some(key) => inbound.for_run(key, next_seq, || ctx.patched(JSON)),
            None => DecodedSignal { dead_letters: inbound.refuse_all(NO_KEY, next_seq), ..DecodedSignal::default() },
        };
        let state = self.state_mut_counted();
        for event in decoded.events {
            if state.is_other_content(&event) && !ctx.patched(CONTENT) {
                state.add_by_id(event, now, started_at);
            } else {
                state.add_event(event, now, started_at);
            }
        }
        for retract in decoded.retracts {
            state.add_retract(retract);
        }
        for letter in decoded.dead_letters {
            records::keep_dead_letter(state, letter);
        }
        ctx.set_current_details(self.current_details(now));
    }

    /// The recipient's preferences changed, or a pause started or ended.
    #[signal(name = "preferences")] // names::PREFERENCES_SIGNAL
    pub fn preferences(&mut self, ctx: &mut SyncWorkflowContext<Self>, _: IgnoredPayload) {
        commands::facts_changed(self.state_mut_commanded(), timestamp(ctx.workflow_time()));
    }

    #[query(name = "status")]
    #[must_use]
    pub fn status(&self, _: &WorkflowContextView) -> DigestStatus {
        DigestStatus::new(&self.state, self.calls.last_error.clone(), self.decided_at)
    }

    /// `None` if no window is open.
    #[query(name = "due")]
    #[must_use]
    pub fn due(&self, _: &WorkflowContextView) -> Option<DuePreview> {
        commands::due_events(&self.state)
    }

    /// Sends the pending events now. A hold, consent, a pause and suppressions still apply.
    #[update(name = "flush")]
    pub fn flush(
        &mut self,
        ctx: &mut SyncWorkflowContext<Self>,
        order: CommandArgument<CommandContext>,
    ) -> FlushResult {
        let now = timestamp(ctx.workflow_time());
        let may_hurry = self.state.waits_for_attempt(now) || self.state.is_attempted(now);
        let hurries = may_hurry && ctx.patched(HURRY);
        commands::flush(self.state_mut_commanded(), order.command(), hurries, now)
    }

    /// Stops sending, but still collects events.
    #[update(name = "hold")]
    pub fn hold(&mut self, ctx: &mut SyncWorkflowContext<Self>, hold: CommandArgument<HoldCommand>) -> HoldResult {
        let now = timestamp(ctx.workflow_time());
        // The validator only has the time of the last decision, so check again.
        if hold.check(now).is_err() && ctx.patched(PAST_HOLD) {
            return HoldResult::default();
        }
        commands::hold(self.state_mut_commanded(), hold.command(), now)
    }

    /// Ends a hold. Sends overdue events now, or after the key's share of the spread.
    #[update(name = "release")]
    pub fn release(
        &mut self,
        ctx: &mut SyncWorkflowContext<Self>,
        release: CommandArgument<ReleaseCommand>,
    ) -> ReleaseResult {
        let release = release.command();
        let spread = release.spread && ctx.patched(SPREAD_RELEASE);
        commands::release(
            self.state_mut_commanded(),
            ReleaseCommand { spread, ..release },
            timestamp(ctx.workflow_time()),
        )
    }

    /// Ends the pending events and the digest in delivery without a message. The ledger keeps the events.
    #[update(name = "drop")]
    pub fn discard(&mut self, _: &mut SyncWorkflowContext<Self>, order: CommandArgument<CommandContext>) -> DropResult {
        commands::discard(self.state_mut_commanded(), order.command())
    }

    #[update(name = "retime")]
    pub async fn retime(ctx: &mut WorkflowContext<Self>, retime: CommandArgument<RetimeCommand>) -> RetimeResult {
        let now = now(ctx);
        let (was, asked) = ctx.state_mut(|w| {
            let was = deadline(&w.state);
            (was, commands::retime(w.state_mut_commanded(), retime.command(), now))
        });
        if ctx.state(|w| w.state.retiming.is_none()) {
            return asked;
        }
        let answered = |w: &Self| w.state.retiming.is_none();
        answer_alone(ctx, answered, |state| commands::retime_result(state, was)).await
    }

    /// Resumes a digest that ended without a message or never ended. If it is waiting for its next attempt,
    /// sends it now.
    #[update(name = "reopen")]
    pub async fn reopen(ctx: &mut WorkflowContext<Self>, reopen: CommandArgument<ReopenCommand>) -> ReopenResult {
        let (now, reopen) = (now(ctx), reopen.command());
        let waits = |w: &Self| w.state.waits_for_attempt(now) && w.state.delivering_id() == Some(reopen.digest_id);
        // Automatic recovery by Tidings should not hurry.
        if reopen.order.by != AuditActor::Tidings.as_str() && ctx.state(waits) && ctx.patched(HURRY) {
            return ctx.state_mut(|w| commands::hurry_delivery(w.state_mut_commanded(), reopen.order, now));
        }
        if let Some(refused) = ctx.state_mut(|w| commands::reopen(w.state_mut_commanded(), reopen, now)) {
            return refused;
        }
        let answered = |w: &Self| !ReopenRequest::is_asked(w.state.reopen.as_ref());
        let take = |state: &mut DigestRunState| state.reopen.take()?.answer;
        answer_alone(ctx, answered, take).await.unwrap_or_default()
    }

    #[update_validator(flush)]
    fn check_flush(&self, _: &WorkflowContextView, argument: &CommandArgument<CommandContext>) -> ValidatorResult {
        argument.check(self.decided_at)
    }

    #[update_validator(hold)]
    fn check_hold(&self, _: &WorkflowContextView, argument: &CommandArgument<HoldCommand>) -> ValidatorResult {
        argument.check(self.decided_at)
    }

    #[update_validator(release)]
    fn check_release(&self, _: &WorkflowContextView, argument: &CommandArgument<ReleaseCommand>) -> ValidatorResult {
        argument.check(self.decided_at)
    }

    #[update_validator(retime)]
    fn check_retime(&self, _: &WorkflowContextView, argument: &CommandArgument<RetimeCommand>) -> ValidatorResult {
        argument.check(self.decided_at)
    }

    #[update_validator(reopen)]
    fn check_reopen(&self, _: &WorkflowContextView, argument: &CommandArgument<ReopenCommand>) -> ValidatorResult {
        argument.check(self.decided_at)
    }

    #[update_validator(discard)]
    fn check_discard(&self, _: &WorkflowContextView, argument: &CommandArgument<CommandContext>) -> ValidatorResult {
        argument.check(self.decided_at)
    }
}

async fn carry_out(ctx: &WorkflowContext<Digest>, decision: DigestDecision) {
    match decision {
        DigestDecision::Wait(until) => wait_for_decision(ctx, until).await,
        DigestDecision::Plan | DigestDecision::Compare => {
            call_activity(ctx, LocalFirst, || Activities::plan, begin_plan, apply_plan).await;
        }
        DigestDecision::CompareUrgent => {
            call_activity(ctx, LocalFirst, || Activities::plan, begin_urgent, apply_urgent).await;
        }
        DigestDecision::Stash => call_activity(ctx, LocalFirst, || Activities::stash, begin_stash, apply_stash).await,
        DigestDecision::Retract => {
            call_activity(ctx, LocalFirst, || Activities::retract, read_only(retract_input), apply_retract).await;
        }
        DigestDecision::Claim => {
            call_activity(ctx, LocalFirst, || Activities::claim, read_only(claim_input), apply_claim).await;
        }
        // Before this patch, the run went straight to another attempt with the large message.
        DigestDecision::Shorten if !ctx.patched(SHORTEN) => ctx.state_mut(|w| leave_to_attempt(&mut w.state)),
        DigestDecision::Render | DigestDecision::Shorten => {
            call_activity(ctx, LocalFirst, || Activities::render, read_only(render_input), apply_render).await;
        }
        DigestDecision::Send => {
            call_activity(ctx, CallMode::Delivery, || Activities::send, begin_send, apply_send).await;
        }
        DigestDecision::Close => call_activity(ctx, LocalFirst, || Activities::close, begin_close, apply_close).await,
        DigestDecision::Reopen => {
            call_activity(ctx, LocalFirst, || Activities::reopen, read_only(reopen_input), apply_reopen).await;
        }
        DigestDecision::Audit => {
            call_activity(ctx, LocalFirst, || Activities::audit, read_only(audit_input), apply_audit).await;
        }
        DigestDecision::DeadLetters => {
            let workflow_id = ctx.workflow_id().to_owned();
            let input = |state: &mut DigestRunState, _| dead_letters_input(state, workflow_id);
            call_activity(ctx, LocalFirst, || Activities::dead_letters, input, apply_dead_letters).await;
        }
        DigestDecision::Finish => {}
    }
}

async fn wait_for_decision(ctx: &WorkflowContext<Digest>, until: Timestamp) {
    let now = now(ctx);
    let length = Duration::try_from(until.duration_since(now)).unwrap_or_default().min(LONGEST_WAIT);
    let summary = if until == Timestamp::MAX { "until it is released".to_owned() } else { format!("until {until:.0}") };
    wait(ctx, length, summary, |w| w.is_full() || decide(&w.state, now) != DigestDecision::Wait(until)).await;
}

impl DrivenWorkflow for Digest {
    type State = DigestRunState;

    fn state_mut(&mut self) -> Option<&mut DigestRunState> {
        Some(&mut self.state)
    }

    fn calls(&mut self) -> &mut ActivityCalls {
        &mut self.calls
    }

    fn winds_down(&self) -> bool {
        self.state.winds_down()
    }

    fn must_continue_as_new(&self) -> bool {
        self.is_full()
    }

    fn command_count(&self) -> u32 {
        self.commands
    }

    fn current_details(&self, now: Timestamp) -> String {
        let status = DigestStatus::new(&self.state, self.calls.last_error.clone(), now);
        format!("{status}{}", self.start_options)
    }
}

fn read_only<I>(
    input: fn(&DigestRunState, Timestamp) -> Option<I>,
) -> impl FnOnce(&mut DigestRunState, Timestamp) -> Option<I> {
    move |state, now| input(state, now)
}

impl Digest {
    /// For signals and commands; counts a step.
    const fn state_mut_counted(&mut self) -> &mut DigestRunState {
        self.steps += 1;
        &mut self.state
    }

    /// For commands, and signals that may have fixed what a call is waiting for.
    const fn state_mut_commanded(&mut self) -> &mut DigestRunState {
        self.commands = self.commands.wrapping_add(1);
        self.state_mut_counted()
    }

    /// Returns `true` if this run must continue as new before anything else.
    pub(crate) const fn is_full(&self) -> bool {
        self.steps >= STEPS_PER_RUN || self.bytes >= BYTES_PER_RUN
    }

    async fn continue_as_new(
        ctx: &WorkflowContext<Self>,
        options: ContinueAsNewOptions,
    ) -> Result<(), WorkflowTermination> {
        wait_until(ctx, |w| w.answers == 0).await;
        let carried = ctx.state_mut(|w| {
            w.state.leave_behind(&w.run_id, now(ctx));
            CarriedState::new(&w.state)
        })?;
        ctx.continue_as_new(carried, options)?;
        Ok(())
    }

    fn finish_run(ctx: &WorkflowContext<Self>) -> WorkflowResult<DigestSummary> {
        ctx.state(|w| {
            if w.state.key.is_none() {
                return Err(ApplicationFailure::non_retryable(NO_KEY).into());
            }
            if w.state.cancelled {
                return Err(WorkflowTermination::cancelled());
            }
            Ok(w.state.summary.clone())
        })
    }
}

// Commands waiting for a local activity return in a workflow task of their own.
//
// If a task also answers a query, it ends with the query and records an activity that has completed
// meanwhile. The workflow then sees the result, and the command ends, in the next task. If a worker replays
// the run in between, it delivers the result while replaying the first task. A command that ends during such
// a replay breaks the run: temporalio-sdk-core 0.10.1 sends the command without its message
// (`IssueNewMessage` in `workflow_machines.rs`), and the server rejects this and each later task. A timer
// avoids this, because the replay is over when it fires. Remove it once the tests `comes_with_a_query` pass
// without it.

/// Patch: return in a separate workflow task. Before, we returned in the task with the result.
const ANSWER_ALONE: &str = "answer-alone";

/// Shortest timer the server supports.
const NEXT_TASK: Duration = Duration::from_millis(1);

async fn answer_alone<T>(
    ctx: &WorkflowContext<Digest>,
    answered: impl Fn(&Digest) -> bool,
    take: impl FnOnce(&mut DigestRunState) -> T,
) -> T {
    // Check before the activity ends: in a replay that delivers its result, the patch would be missing.
    let alone = ctx.patched(ANSWER_ALONE);
    wait_until(ctx, answered).await;
    let answer = ctx.state_mut(|w| {
        w.answers += 1;
        take(&mut w.state)
    });
    if alone {
        let detached = WorkflowCancellationToken::new();
        ctx.timer(TimerOptions::builder(NEXT_TASK).cancellation_token(detached).build()).await;
    }
    ctx.state_mut(|w| w.answers -= 1);
    answer
}
