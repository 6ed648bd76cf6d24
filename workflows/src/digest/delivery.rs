//! State and steps for the digest in delivery. `render` composes the message and stores it in the outbox,
//! `send` makes one attempt, and `reopen` resumes a digest that ended without a message or never ended.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{
    command::ReopenResult,
    records::AuditActor,
    settings::RETRY_DELAYS,
    step::{
        PauseWait, RenderAnswer, RenderInput, ReopenAnswer, ReopenInput, SendAnswer, SendDigestInput, TooLarge,
        UnrecordedEnd,
    },
    window::{SendMoment, WaitReason, Window},
};

use super::state::{DigestRunState, is_default};
use crate::driver::after_delay;

#[expect(clippy::struct_excessive_bools, reason = "facts of their own, under the names of states that are kept")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DigestDelivery {
    pub window: Window,
    pub items: u64,
    pub groups: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// The outbox has the message; after a relay rejected it as too large, the shorter one.
    pub rendered: bool,
    /// We shorten a message only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_large: Option<TooLarge>,
    pub attempts: u32,
    /// The ledger refuses to record the last attempt. No new attempt may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedEnd>,
    pub not_before: Option<Timestamp>,
    pub why: String,
    /// Delay of the message, so an operator can take it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Duration>,
    /// End of this delay. Set from rendering until the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseWait>,
    /// The last attempt was skipped and does not count: the message waits for a relay, a reply or its
    /// recipient.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// A signal arrived since the last attempt was requested, so its findings about pauses and hours may be
    /// outdated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signalled: bool,
    /// A flush arrived since the last attempt was requested. If this attempt is deferred, the next one
    /// follows immediately.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flushed: bool,
    /// Next good moment for this recipient, with their own pause. From an activity: workflows have no time
    /// zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<Timestamp>,
    /// Most recent wait. Once it is [at once](Goes::AtOnce), it stays: the hour no longer matters for this
    /// digest.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: WaitReason,
}

impl DigestDelivery {
    pub const fn new(window: Window, items: u64, groups: u64) -> Self {
        Self {
            window,
            items,
            groups,
            stored: false,
            rendered: false,
            too_large: None,
            attempts: 0,
            unrecorded: None,
            not_before: None,
            why: String::new(),
            undo: None,
            undo_until: None,
            pause: None,
            waits: false,
            signalled: false,
            flushed: false,
            moment: None,
            wait: WaitReason::FirstDeadline,
        }
    }

    /// No attempt starts before this time: after a failed one, during the undo period, or outside good hours.
    pub fn waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        let moment = self.moment.filter(|_| !self.is_hurried());
        self.not_before.max(self.undo_until).max(moment).filter(|at| *at > now)
    }

    pub fn note_wait(&mut self, wait: WaitReason) {
        if !self.is_hurried() {
            self.wait = wait;
        }
    }

    /// Returns `true` if waiting only for a better hour.
    pub fn waits_for_moment(&self, now: Timestamp) -> bool {
        let is_ahead = |at: Option<Timestamp>| at.is_some_and(|at| at > now);
        !self.is_hurried() && is_ahead(self.moment) && !is_ahead(self.not_before)
    }

    /// Returns `false` during an operator's pause.
    pub fn waits_for_attempt(&self, now: Timestamp) -> bool {
        self.pause.is_none() && self.not_before.is_some_and(|at| at > now)
    }

    /// Returns `true` if an attempt is running or due, except after an operator's pause.
    pub fn is_attempted(&self, now: Timestamp) -> bool {
        self.rendered && self.pause.is_none() && self.unrecorded.is_none() && self.waits_until(now).is_none()
    }

    /// Makes the next attempt due, at any hour. Resets the retry delays.
    pub fn attempt_now(&mut self) {
        self.flushed = false;
        self.not_before = None;
        self.attempts = 0;
        self.note_wait(WaitReason::Flushed);
    }

    /// Returns `true` if waiting for a better hour, but an urgent event may override this.
    pub fn may_be_hurried(&self) -> bool {
        self.moment.is_some() && !self.is_hurried()
    }

    fn is_hurried(&self) -> bool {
        self.wait.send_moment() == SendMoment::AtOnce
    }

    /// Starts the undo period of the first message.
    pub fn note_rendered(&mut self, now: Timestamp) {
        self.rendered = true;
        if self.too_large.is_none()
            && let Some(undo) = self.undo
        {
            let at = after_delay(now, undo);
            self.undo_until = Some(at);
            self.note_wait(WaitReason::Undo);
            self.why = format!("waits until {at:.0}; tidings digest drop takes it back");
        }
    }

    /// Returns `false` if there was none.
    pub fn end_undo(&mut self) -> bool {
        let waited = self.undo_until.take().is_some();
        if waited {
            self.why.clear();
        }
        waited
    }

    pub fn wait_for(&mut self, share: Duration, why: &str, now: Timestamp) {
        let at = after_delay(now, share);
        if self.not_before.max(self.moment).is_none_or(|not_before| not_before < at) {
            self.not_before = Some(at);
            self.note_wait(WaitReason::HoldOfMany);
            self.why = format!("{why}; spread -> {at:.0}");
        }
    }

    /// Shortens the wait for a pause to the key's share of the spread, because the pause may be over. Checks
    /// for a better hour again, e.g. if the recipient's own pause was the reason.
    pub fn look_again(&mut self, now: Timestamp) {
        self.signalled = true;
        // Don't clear it: we did wait for a better hour, so events since then should form one digest.
        self.moment = self.moment.map(|moment| moment.min(now));
        if let Some(pause) = &self.pause {
            let at = after_delay(now, pause.share);
            self.not_before = self.not_before.map(|not_before| not_before.min(at));
        }
    }
}

pub(super) fn render_input(state: &DigestRunState, asked_at: Timestamp) -> Option<RenderInput> {
    let digest = state.delivering.as_ref()?;
    let (window, too_large) = (digest.window.clone(), digest.too_large.clone());
    Some(RenderInput { asked_at, window, stored: digest.stored && too_large.is_none(), too_large })
}

/// Leaves it to the next attempt, like earlier versions. Only for runs without the patch.
pub(super) fn leave_to_attempt(state: &mut DigestRunState) {
    if let Some(digest) = &mut state.delivering {
        digest.rendered = true;
    }
}

pub(super) fn apply_render(state: &mut DigestRunState, _: &RenderInput, answer: RenderAnswer, now: Timestamp) {
    let Some(digest) = &mut state.delivering else { return };
    match answer {
        RenderAnswer::Stored => digest.note_rendered(now),
        RenderAnswer::Nothing(closed) => state.end_delivery(closed),
    }
}

pub(super) fn begin_send(state: &mut DigestRunState, asked_at: Timestamp) -> Option<SendDigestInput> {
    let digest = state.delivering.as_mut()?;
    if state.hold.is_some() {
        digest.note_wait(WaitReason::Hold);
    }
    (digest.signalled, digest.flushed) = (false, false);
    digest.end_undo();
    Some(SendDigestInput {
        asked_at,
        window: digest.window.clone(),
        failed: digest.attempts,
        shortens: digest.too_large.is_none(),
        opens_returned: true,
        keeps_ends: true,
        unrecorded: digest.unrecorded.clone(),
        after: Some(digest.wait),
    })
}

pub(super) fn apply_send(state: &mut DigestRunState, _: &SendDigestInput, answer: SendAnswer, now: Timestamp) {
    // Events already moved to the ledger are not compared again, so treat an urgent one as new.
    let is_urgent = state.open.as_ref().is_some_and(|open| open.urgent_at.is_some());
    let Some(digest) = &mut state.delivering else { return };
    digest.unrecorded = None;
    digest.waits = matches!(answer, SendAnswer::Waiting { pause: None, too_large: None, moment: false, .. });
    match answer {
        SendAnswer::Closed { closed, returned } => {
            state.end_delivery(closed);
            state.note_returned(returned);
        }
        SendAnswer::Deferred { why, again_in } => {
            let delay = again_in.unwrap_or_else(|| default_delay(digest.attempts));
            digest.attempts += 1;
            digest.not_before = Some(after_delay(now, delay));
            digest.moment = None;
            digest.note_wait(if is_urgent { WaitReason::Urgent } else { WaitReason::Retry });
            digest.why = why;
            digest.pause = None;
            if digest.flushed {
                digest.attempt_now();
            }
        }
        SendAnswer::Waiting { until, why, moment: true, .. } => {
            if is_urgent {
                digest.note_wait(WaitReason::Urgent);
            }
            digest.moment = Some(until);
            digest.why = why;
            digest.pause = None;
            if digest.signalled {
                digest.look_again(now);
            }
        }
        SendAnswer::Waiting { until, why, pause, too_large, moment: false } => {
            if let Some(attempt) = too_large {
                digest.rendered = false;
                digest.too_large = Some(TooLarge { attempt, why: why.clone() });
            }
            digest.not_before = Some(until);
            digest.note_wait(if pause.is_some() { WaitReason::PauseOfOperator } else { WaitReason::Breaker });
            digest.why = why;
            digest.pause = pause;
            // The attempt may have read the store before the pause ended.
            if digest.signalled {
                digest.look_again(now);
            }
        }
        SendAnswer::Unrecorded(end) => {
            digest.why = end.describe_wait();
            digest.unrecorded = Some(end);
        }
    }
}

fn default_delay(attempts: u32) -> Duration {
    let nth = usize::try_from(attempts).unwrap_or(usize::MAX);
    RETRY_DELAYS[nth.min(RETRY_DELAYS.len() - 1)]
}

pub(super) fn reopen_input(state: &DigestRunState, asked_at: Timestamp) -> Option<ReopenInput> {
    Some(ReopenInput { asked_at, key: state.key.clone()?, reopen: state.reopen.as_ref()?.request.clone() })
}

/// Starts delivering the resumed digest, and keeps the result for the operator. If Tidings itself recovered the
/// digest, it should wait for a good hour.
pub(super) fn apply_reopen(state: &mut DigestRunState, asked: &ReopenInput, answer: ReopenAnswer, _: Timestamp) {
    let answer = match answer {
        ReopenAnswer::Claimed { window, items, groups } => {
            state.take_back(asked.reopen.digest_id);
            let digest = DigestDelivery::new(window, items, groups);
            let by_itself = asked.reopen.order.by == AuditActor::Tidings.as_str();
            let wait = if by_itself { WaitReason::LateWorker } else { WaitReason::Flushed };
            state.delivering = Some(DigestDelivery { wait, ..digest });
            ReopenResult { events: items, refused: None }
        }
        ReopenAnswer::Refused { why } => ReopenResult { events: 0, refused: Some(why) },
    };
    if let Some(reopening) = &mut state.reopen {
        reopening.answer = Some(answer);
    }
}
