//! The failure of a step of an attempt.

use std::{error::Error as _, io, time::Duration};

use tidings_model::{
    attempt::{AttemptClass, Phase},
    replies::{About, ReplyRow},
};
use tokio::time::timeout;
use tracing::{Instrument, debug_span};

use super::{classify::SmtpEvent, reply::Reply};

/// A failed step.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) phase: Phase,
    pub(super) event: SmtpEvent,
    /// The reason as text, without addresses.
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(phase: Phase, event: SmtpEvent, detail: impl Into<String>) -> Self {
        Self { phase, event, detail: detail.into() }
    }

    pub(super) fn lost(phase: Phase, error: &io::Error) -> Self {
        Self::new(phase, SmtpEvent::Lost, format!("the connection is lost: {error}"))
    }

    pub(super) fn silent(phase: Phase, limit: Duration) -> Self {
        Self::new(phase, SmtpEvent::Silent, format!("no answer within {limit:?}"))
    }

    /// Removes what the relay's reply quotes of the recipient's address.
    pub(super) fn hiding(mut self, local_part: &str) -> Self {
        if let SmtpEvent::Reply(reply) = &mut self.event {
            reply.hide(local_part, self.phase);
        }
        self
    }

    pub(super) fn replied(phase: Phase, reply: Reply) -> Self {
        Self::new(phase, SmtpEvent::Reply(reply), "")
    }

    /// lettre keeps a negative reply's code as the status and its text as the source.
    pub(super) fn from_lettre(phase: Phase, error: &lettre::transport::smtp::Error) -> Self {
        if let Some(code) = error.status() {
            let text = error.source().map(ToString::to_string).unwrap_or_default();
            return Self::replied(phase, Reply::new(code.into(), &text));
        }
        // Bytes that are not a reply may contain anything, so the text omits them.
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let detail = "the connection was closed, or the bytes received are not an SMTP reply";
        io.map_or_else(|| Self::new(phase, SmtpEvent::Lost, detail), |io| Self::lost(phase, io))
    }

    /// Recognises that the session may be at fault and another one may be served: the relay closed an idle connection, which it reports at
    /// the next command with 421 or not at all, a network forgot it, or the relay takes no more messages over this one.
    pub(super) fn is_about_session(&self) -> bool {
        match (&self.event, self.refusal()) {
            (SmtpEvent::Lost | SmtpEvent::Silent, _) => self.phase == Phase::Mail,
            (SmtpEvent::Reply(reply), Some(row)) => {
                let is_transient_us = row.about == About::Us && row.class == AttemptClass::Deferred;
                reply.code == 421 || row.about == About::Session || is_transient_us
            }
            _ => false,
        }
    }

    /// The relay refuses or closes a connection, which may be one more than it takes.
    pub(super) fn is_about_connections(&self) -> bool {
        let is_closed = matches!(self.event, SmtpEvent::Lost | SmtpEvent::Reply(_)) && self.phase <= Phase::Ehlo;
        is_closed || self.refusal().is_some_and(|row| row.about == About::Connections)
    }

    /// The relay refused a command and waits for the next one. A session that refuses messages is not asked again.
    pub(super) fn leaves_the_connection_usable(&self) -> bool {
        match (&self.event, self.refusal()) {
            (SmtpEvent::Reply(reply), Some(row)) => {
                let is_given_up = matches!(row.about, About::Session | About::Connections)
                    || (row.about == About::Us && self.phase == Phase::Mail);
                reply.code != 421 && !is_given_up
            }
            (event, _) => matches!(event, SmtpEvent::OverSize | SmtpEvent::NotRepresentable),
        }
    }

    /// The relay refuses the name or the secret of a login.
    pub(super) fn refuses_login(&self) -> bool {
        self.phase == Phase::Auth && matches!(&self.event, SmtpEvent::Reply(reply) if reply.code >= 500)
    }

    fn refusal(&self) -> Option<&'static ReplyRow> {
        if let SmtpEvent::Reply(reply) = &self.event { reply.refusal(self.phase) } else { None }
    }
}

/// Runs a step of `phase` in a span of its own and ends the step after `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    phase: Phase,
    step: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let step = timeout(limit, step).instrument(debug_span!("smtp_step", phase = phase.name()));
    step.await.unwrap_or_else(|_| Err(Failure::silent(phase, limit)))
}
