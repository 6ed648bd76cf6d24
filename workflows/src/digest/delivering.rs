//! The digest in delivery, as part of the state.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{
    step::{PauseWait, TooLarge, UnrecordedEnd},
    window::{Goes, Wait, Window},
};

use crate::driver::after;

/// The digest in delivery.
#[expect(clippy::struct_excessive_bools, reason = "facts of their own, under the names of states that are kept")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivering {
    pub window: Window,
    pub items: u64,
    pub groups: u64,
    /// The claim stored the message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// The outbox has the message. After a relay found it too large: the outbox has the shorter one.
    pub rendered: bool,
    /// The attempt that found the message too large. A message is made shorter once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_large: Option<TooLarge>,
    /// Number of failed attempts.
    pub attempts: u32,
    /// The end of the last attempt, while the ledger refuses to record it. No other attempt begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedEnd>,
    pub not_before: Option<Timestamp>,
    pub why: String,
    /// The time for which the made message waits, so that an operator can take it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Duration>,
    /// The end of that wait, from the message's making to the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_until: Option<Timestamp>,
    /// The last attempt found this pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseWait>,
    /// The last attempt was not made, and cost nothing: the message waits for a relay, a reply or its recipient.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// A signal came since the last attempt was asked for, so that what the attempt found about pauses and hours may be old.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signalled: bool,
    /// A flush came since the last attempt was asked for. If that attempt is deferred, the next one comes at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flushed: bool,
    /// The next good moment for this person, by an activity's answer, after their own pause too. The workflow knows no zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<Timestamp>,
    /// The last wait. One that ends [at once](Goes::AtOnce) stays: the hour does not matter to this digest any more.
    #[serde(default, skip_serializing_if = "is_first")]
    pub wait: Wait,
}

impl Delivering {
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
            wait: Wait::FirstDeadline,
        }
    }

    /// The time until which no attempt starts: after a failed one, while the message can be taken back, or at a bad hour.
    pub fn waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        let moment = self.moment.filter(|_| !self.is_hurried());
        self.not_before.max(self.undo_until).max(moment).filter(|at| *at > now)
    }

    /// Notes what the next attempt waits for.
    pub fn note_wait(&mut self, wait: Wait) {
        if !self.is_hurried() {
            self.wait = wait;
        }
    }

    /// Reports a wait for nothing but a better hour.
    pub fn waits_for_moment(&self, now: Timestamp) -> bool {
        let is_ahead = |at: Option<Timestamp>| at.is_some_and(|at| at > now);
        !self.is_hurried() && is_ahead(self.moment) && !is_ahead(self.not_before)
    }

    /// Reports a wait for the time of an attempt, and not for an operator's pause.
    pub fn waits_for_attempt(&self, now: Timestamp) -> bool {
        self.pause.is_none() && self.not_before.is_some_and(|at| at > now)
    }

    /// Reports an attempt that is under way or due, and not one after an operator's pause.
    pub fn is_attempted(&self, now: Timestamp) -> bool {
        self.rendered && self.pause.is_none() && self.unrecorded.is_none() && self.waits_until(now).is_none()
    }

    /// Makes the next attempt due, at any hour. The retry delays begin anew.
    pub fn hurry(&mut self) {
        self.flushed = false;
        self.not_before = None;
        self.attempts = 0;
        self.note_wait(Wait::Flushed);
    }

    /// Reports a better hour that an urgent event would not wait for.
    pub fn may_be_hurried(&self) -> bool {
        self.moment.is_some() && !self.is_hurried()
    }

    fn is_hurried(&self) -> bool {
        self.wait.goes() == Goes::AtOnce
    }

    /// Makes the digest ready to be sent. Its first message waits for `undo`.
    pub fn note_rendered(&mut self, now: Timestamp) {
        self.rendered = true;
        if self.too_large.is_none()
            && let Some(undo) = self.undo
        {
            let at = after(now, undo);
            self.undo_until = Some(at);
            self.note_wait(Wait::Undo);
            self.why = format!("waits until {at:.0}; tidings digest drop takes it back");
        }
    }

    /// Ends the wait for `undo`. `false`: there was none.
    pub fn end_undo(&mut self) -> bool {
        let waited = self.undo_until.take().is_some();
        if waited {
            self.why.clear();
        }
        waited
    }

    /// Lets an attempt that is due wait for the key's share of the spread.
    pub fn wait_for(&mut self, share: Duration, why: &str, now: Timestamp) {
        let at = after(now, share);
        if self.not_before.max(self.moment).is_none_or(|not_before| not_before < at) {
            self.not_before = Some(at);
            self.note_wait(Wait::HoldOfMany);
            self.why = format!("{why}; spread -> {at:.0}");
        }
    }

    /// Shortens the wait for a pause to the key's share of the spread, because the pause may be over. A better hour is asked for anew: it
    /// may be another one, and the recipient's own pause may have been the reason.
    pub fn look_again(&mut self, now: Timestamp) {
        self.signalled = true;
        // It stays one that was waited for, so that what came meanwhile is one digest.
        self.moment = self.moment.map(|moment| moment.min(now));
        if let Some(pause) = &self.pause {
            let at = after(now, pause.share);
            self.not_before = self.not_before.map(|not_before| not_before.min(at));
        }
    }
}

/// The wait that JSON leaves out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_first(wait: &Wait) -> bool {
    *wait == Wait::FirstDeadline
}
