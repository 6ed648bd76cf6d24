//! Faults: the step that fails, the failure, and the number of times.

use std::time::Duration;

/// A step of the conversation, as the relay sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Greeting,
    Ehlo,
    StartTls,
    Auth,
    Mail,
    Rcpt,
    Data,
    /// After the first line of the content.
    Body,
    /// After the final dot.
    Dot,
    Rset,
    /// After waiting for a command for the time in the settings.
    Idle,
}

/// The relay's act instead of its normal reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Replies with this text and CR LF. `\r
    /// ` in the text makes more lines.
    Reply(String),
    /// Replies with this text instead and continues as if it were the normal reply.
    Slip(String),
    /// Replies with this text and closes.
    ReplyAndClose(String),
    /// Replies normally after a delay.
    Slow(Duration),
    /// Never replies.
    Silent,
    /// Closes the connection. At [`At::Dot`] the email is lost.
    Close,
    /// Shuts down its half of the connection and continues to read.
    HalfClose,
    /// At [`At::Dot`]: keeps the email and closes without a reply.
    KeepAndClose,
    /// At [`At::Dot`]: keeps the email and replies with this text.
    KeepAndReply(String),
}

/// A fault at one step of the conversation.
#[derive(Clone, Debug)]
pub struct Fault {
    at: At,
    act: Act,
    to: Option<String>,
    /// Matches that pass first, and matches that are left.
    after: usize,
    left: usize,
}

impl Fault {
    /// A fault at every match, for every recipient.
    #[must_use]
    pub const fn new(at: At, act: Act) -> Self {
        Self { at, act, to: None, after: 0, left: usize::MAX }
    }

    /// Limits the fault to conversations with this recipient (from RCPT on).
    #[must_use]
    pub fn to(self, recipient: &str) -> Self {
        Self { to: Some(recipient.to_owned()), ..self }
    }

    /// Limits the fault to this number of matches.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { left: times, ..self }
    }

    /// Lets this number of matches pass first.
    #[must_use]
    pub fn after(self, times: usize) -> Self {
        Self { after: times, ..self }
    }

    fn fits(&self, at: At, to: &[String]) -> bool {
        self.at == at && self.left > 0 && self.to.as_ref().is_none_or(|recipient| to.contains(recipient))
    }
}

pub(super) fn next(faults: &mut [Fault], at: At, to: &[String]) -> Option<Act> {
    let fault = faults.iter_mut().find(|fault| fault.fits(at, to))?;
    if fault.after > 0 {
        fault.after -= 1;
        return None;
    }
    fault.left -= 1;
    Some(fault.act.clone())
}
