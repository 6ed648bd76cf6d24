//! Makes messages and sends them. Templates render subject, HTML and text, MIME and DKIM make the bytes, SMTP carries them.

pub mod dkim;
mod error;
pub mod mime;
pub mod render;
pub mod smtp;

pub use error::Error;

/// The former names, until their callers have the new ones.
#[doc(hidden)]
pub mod mailer {
    pub use crate::{
        Error,
        dkim::{Dkim, Signers},
        mime::{Composed, Draft, MessageKind as Of, Party as Person},
        smtp::{
            AttemptOutcome as Delivery, Limits, Mailer, Ready, Reply, SmtpEvent as Event, Timeouts, Withdrawal,
            classify,
        },
    };
}
#[doc(hidden)]
pub use render as renderer;
