//! A relay as shown to operators.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::smtp::SmtpReply;
use tidings_model::{
    attempt::{AttemptClass, AttemptPhase},
    breaker::{CircuitBreaker, VersionedBreaker, split_name},
    records::RefusalRecord,
    replies::{RefusalSubject, ReplyRow},
    settings::{Settings, StreamName},
};
use uuid::Uuid;

/// One relay.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Relay))]
pub struct RelayView<'a> {
    name: &'a str,
    /// Only this tenant's email is blocked. Absent if the whole relay is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Without the password, or why the URL is missing.
    url: String,
    streams: Vec<StreamName>,
    #[serde(flatten)]
    state: BreakerState,
    failures: u32,
    sent: u32,
    bounced: u32,
    complained: u32,
}

#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BreakerState))]
enum BreakerState {
    /// Mail goes.
    Closed,
    /// The circuit breaker is open.
    Open {
        cause: &'static str,
        why: String,
        since: Timestamp,
        /// When one message will probe the relay. Absent if only an operator can close the breaker.
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
    /// Lists each relay, followed by its blocked tenants. URLs contain no password, or explain why they are
    /// missing.
    #[must_use]
    pub fn all(
        relays: impl IntoIterator<Item = (&'a str, String)>,
        settings: &Settings,
        breakers: &BTreeMap<String, VersionedBreaker>,
        now: Timestamp,
    ) -> Vec<Self> {
        let rows = relays.into_iter().flat_map(|(name, url)| {
            let of_all = breakers.get(name).map(|kept| kept.breaker.clone()).unwrap_or_default();
            let of_tenants = breakers.iter().filter_map(|(breaker, kept)| {
                let (relay, tenant) = split_name(breaker);
                let open = relay == name && kept.breaker.open.is_some();
                Some((tenant.filter(|_| open)?, kept.breaker.clone()))
            });
            let rows = [(None, of_all)].into_iter().chain(of_tenants.map(|(tenant, breaker)| (Some(tenant), breaker)));
            rows.map(|(tenant, breaker)| Self::new(name, tenant, url.clone(), settings, breaker, now))
                .collect::<Vec<_>>()
        });
        rows.collect()
    }

    #[must_use]
    pub fn new(
        name: &'a str,
        tenant: Option<&str>,
        url: String,
        settings: &Settings,
        breaker: CircuitBreaker,
        now: Timestamp,
    ) -> Self {
        Self {
            name,
            tenant: tenant.map(str::to_owned),
            url,
            streams: settings.streams_by(name).collect(),
            failures: breaker.failures,
            sent: breaker.sent,
            bounced: breaker.bounced,
            complained: breaker.complained,
            state: BreakerState::new(breaker, now),
        }
    }
}

impl BreakerState {
    fn new(breaker: CircuitBreaker, now: Timestamp) -> Self {
        let Some(open) = breaker.open else { return Self::Closed };
        let rests = open.blocks_probes(now);
        let (cause, why, since) = (open.cause.name(), open.why, open.since);
        if rests {
            let until = (open.until < Timestamp::MAX).then_some(open.until);
            return Self::Open { cause, why, since, until };
        }
        Self::HalfOpen { cause, why, since, message: open.probe.map(|probe| probe.message) }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRefusal {
    at: Timestamp,
    message: Uuid,
    phase: AttemptPhase,
    class: AttemptClass,
    reply: String,
    about: RefusalSubject,
    meaning: &'static str,
    /// Where we have seen this reply, or its definition.
    source: &'static str,
}

impl ExplainedRefusal {
    /// Returns `None` if the reply is not a refusal, but belongs to another command.
    #[must_use]
    pub fn new(RefusalRecord { message, at, phase, class, reply }: RefusalRecord) -> Option<Self> {
        let (code, text) = reply.split_at_checked(3)?;
        let &ReplyRow { about, meaning, source, .. } = SmtpReply::new(code.parse().ok()?, text).refusal(phase)?;
        Some(Self { at, message, phase, class, reply, about, meaning, source })
    }
}

impl fmt::Display for ExplainedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, message, phase, class, reply, about, meaning, source } = self;
        writeln!(f, "{at:.0}  {phase}: {reply}  ({class}, message {message})")?;
        write!(f, "  about {}: {meaning}\n  as at: {source}", about.subject_phrase())
    }
}

impl fmt::Display for RelayView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, tenant, url, state, failures, sent, bounced, complained, .. } = self;
        let (of, closing) = match tenant {
            Some(tenant) => (format!(" for the tenant {tenant}"), format!("{name} --tenant {tenant}")),
            None => (String::new(), (*name).to_owned()),
        };
        let names: Vec<_> = self.streams.iter().map(|stream| stream.name()).collect();
        write!(f, "{name}{of}  {url}  {}: ", names.join(", "))?;
        match state {
            BreakerState::Closed if *failures > 0 => {
                write!(f, "in use; the last {failures} attempts could not connect")?;
            }
            BreakerState::Closed => f.write_str("in use")?,
            BreakerState::Open { cause, why, since, until } => {
                write!(f, "circuit breaker open since {since:.0}, {cause}: {why}; ")?;
                match until {
                    Some(until) => write!(f, "one message tries it at {until:.0}")?,
                    None => write!(f, "until `tidings relays close {closing}`")?,
                }
            }
            BreakerState::HalfOpen { cause, why, since, message } => {
                write!(f, "circuit breaker open since {since:.0}, {cause}: {why}; ")?;
                match message {
                    Some(message) => write!(f, "message {message} tries it")?,
                    None => f.write_str("the next message tries it")?,
                }
            }
        }
        if *bounced > 0 {
            write!(f, "; {bounced} of the last {} bounced", sent + bounced)?;
        }
        if *complained > 0 { write!(f, "; {complained} complaints") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_explained_in_words() {
        let refusal = |phase, reply: &str| {
            let (class, message) = (AttemptClass::Configuration, Uuid::nil());
            ExplainedRefusal::new(RefusalRecord {
                message,
                at: Timestamp::UNIX_EPOCH,
                phase,
                class,
                reply: reply.into(),
            })
        };
        let said = refusal(AttemptPhase::Rcpt, "550 relay not permitted").unwrap().to_string();
        assert_eq!(
            said.lines().take(2).collect::<Vec<_>>(),
            [
                "1970-01-01T00:00:00Z  rcpt: 550 relay not permitted  (configuration, message 00000000-0000-0000-0000-000000000000)",
                "  about us: the relay does not relay for this host: allow it there, or log in",
            ]
        );
        assert!(said.contains("Exim 4.96"), "{said}");
        let sender =
            refusal(AttemptPhase::Rcpt, "450 4.1.8 <address>: Sender address rejected: Domain not found").unwrap();
        assert_eq!(sender.about, RefusalSubject::Us);
        assert_eq!(refusal(AttemptPhase::Data, "250 2.0.0 what?"), None);
        assert_eq!(refusal(AttemptPhase::Data, "x"), None);
    }
}
