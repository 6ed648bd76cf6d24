//! A relay as operators see it.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use tidings_model::{
    breaker::Breaker,
    settings::{Settings, StreamName},
};
use uuid::Uuid;

/// One relay.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Relay))]
pub struct RelayView<'a> {
    name: &'a str,
    /// Without the password; why it is missing, where it is.
    url: String,
    streams: Vec<StreamName>,
    #[serde(flatten)]
    state: State,
    failures: u32,
    sent: u32,
    bounced: u32,
}

#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BreakerState))]
enum State {
    /// Mail goes.
    Closed,
    /// It is left alone.
    Open {
        cause: &'static str,
        why: String,
        since: Timestamp,
        /// Then one message tries it; nothing: when an operator closes it.
        until: Option<Timestamp>,
    },
    /// One message at a time may try it.
    HalfOpen {
        cause: &'static str,
        why: String,
        since: Timestamp,
        /// The one that does.
        message: Option<Uuid>,
    },
}

impl<'a> RelayView<'a> {
    /// `url` is the address without its password, or says why there is none.
    #[must_use]
    pub fn new(name: &'a str, url: String, settings: &Settings, breaker: Breaker, now: Timestamp) -> Self {
        Self {
            name,
            url,
            streams: settings.streams_by(name).collect(),
            failures: breaker.failures,
            sent: breaker.sent,
            bounced: breaker.bounced,
            state: State::new(breaker, now),
        }
    }
}

impl State {
    fn new(breaker: Breaker, now: Timestamp) -> Self {
        let Some(open) = breaker.open else { return Self::Closed };
        let (cause, why, since) = (open.cause.name(), open.why, open.since);
        if now < open.until {
            let until = (open.until < Timestamp::MAX).then_some(open.until);
            return Self::Open { cause, why, since, until };
        }
        Self::HalfOpen { cause, why, since, message: open.probe.map(|probe| probe.message) }
    }
}

impl fmt::Display for RelayView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, url, state, failures, sent, bounced, .. } = self;
        let names: Vec<_> = self.streams.iter().map(|stream| stream.name()).collect();
        write!(f, "{name}  {url}  {}: ", names.join(", "))?;
        match state {
            State::Closed if *failures > 0 => write!(f, "in use; the last {failures} attempts could not connect")?,
            State::Closed => f.write_str("in use")?,
            State::Open { cause, why, since, until } => {
                write!(f, "left alone since {since:.0}, {cause}: {why}; ")?;
                match until {
                    Some(until) => write!(f, "one message tries it at {until:.0}")?,
                    None => write!(f, "until `tidings relays close {name}`")?,
                }
            }
            State::HalfOpen { cause, why, since, message } => {
                write!(f, "left alone since {since:.0}, {cause}: {why}; ")?;
                match message {
                    Some(message) => write!(f, "message {message} tries it")?,
                    None => f.write_str("the next message tries it")?,
                }
            }
        }
        if *bounced > 0 { write!(f, "; {bounced} of the last {} bounced", sent + bounced) } else { Ok(()) }
    }
}
