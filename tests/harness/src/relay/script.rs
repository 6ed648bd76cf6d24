//! What goes wrong, where, how often.

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
    /// When it has waited for a command as long as its settings say.
    Idle,
}

/// What the relay does instead of its duty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Answers this; a CR LF is added. `\r\n` within makes more lines.
    Reply(String),
    /// Answers this in the place of its duty, and goes on as if it had done it.
    Slip(String),
    /// Answers this and closes.
    ReplyAndClose(String),
    /// Does its duty, but only after a while.
    Slow(Duration),
    /// Never answers.
    Silent,
    /// Closes the connection. At [`At::Dot`] the mail is lost.
    Close,
    /// Answers no more, but goes on listening: shuts its half of the connection.
    HalfClose,
    /// At [`At::Dot`]: keeps the mail, and closes without a word.
    KeepAndClose,
    /// At [`At::Dot`]: keeps the mail, and answers this.
    KeepAndReply(String),
}

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    at: At,
    act: Act,
    to: Option<String>,
    /// Times that it lets pass first, and times that are left.
    after: usize,
    left: usize,
}

impl Fault {
    /// Every time, for everybody.
    #[must_use]
    pub const fn new(at: At, act: Act) -> Self {
        Self { at, act, to: None, after: 0, left: usize::MAX }
    }

    /// Only when this is among the recipients so far (from RCPT on).
    #[must_use]
    pub fn to(self, recipient: &str) -> Self {
        Self { to: Some(recipient.to_owned()), ..self }
    }

    /// Only so many times.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { left: times, ..self }
    }

    /// Only after this step went well so many times.
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
