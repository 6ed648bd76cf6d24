//! `tidings relays`: tests relays, and opens or closes circuit breakers.

use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty},
    smtp::{AttemptOutcome, SendLane, SmtpTimeouts},
};
use tidings_model::{
    EmailAddress, RelaysToday,
    attempt::{AttemptClass, AttemptPhase},
    breaker,
    settings::{StreamName, StreamSettings, UnknownRecipients},
};
use tidings_services::relays::{BreakerCommand, ExplainedRefusal, RelaySet, RelayView};
use uuid::Uuid;

use crate::{
    Config,
    args::OptionalReason,
    config::{self, RelayConfig},
    error::UsageError,
    storage,
};

/// Refusals to show and explain.
const REFUSALS: u32 = 10;

const EXAMPLES: &str = "\
Examples:
  tidings relays list
  tidings relays show ses
  tidings relays test ses
  tidings relays test ses --to ann@acme.example
  tidings relays open ses --why 'they are moving, ticket 812'
  tidings relays close ses --why 'the new password is in place'
  tidings relays close ses --tenant acme --why 'their list is clean now'

A relay with an open circuit breaker gets no messages. They go to the next relay of the stream, or wait. Tidings opens
breakers by itself, and probes the relay with one message at a time; see docs/delivery.md.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum RelaysCommand {
    /// List the relays with their streams and circuit breakers
    #[command(after_help = "Example: tidings relays list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a relay, and explain its latest refusals: whom each concerned, and what to do
    #[command(after_help = "Example: tidings relays show ses --json")]
    Show {
        /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of `smtp_url`
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect, start TLS, log in and send NOOP; changes nothing
    #[command(after_help = "Examples:\n  \
        tidings relays test ses\n  \
        tidings relays test ses --to ann@acme.example")]
    Test(TestOptions),
    /// Open a relay's circuit breaker: it gets no messages, or none of a tenant, until you close the breaker
    #[command(after_help = "Examples:\n  \
        tidings relays open ses --why 'they are moving, ticket 812'\n  \
        tidings relays open ses --tenant acme --why 'they bought a list'")]
    Open(BreakerCommandOptions),
    /// Close a relay's circuit breaker: it gets messages again, waiting ones within five minutes
    #[command(after_help = "Example: tidings relays close ses --why 'the new password is in place'")]
    Close(BreakerCommandOptions),
}

/// The relay, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct BreakerCommandOptions {
    /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of `smtp_url`
    #[arg(value_name = "NAME")]
    name: String,
    /// Only email of this tenant, which needs a table [tenant.NAME]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if the test failed.
pub(crate) async fn run(command: RelaysCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        RelaysCommand::List { json } => list(config, json).await,
        RelaysCommand::Show { name, json } => show(&name, config, json).await,
        RelaysCommand::Test(options) => test(options, config).await,
        RelaysCommand::Open(options) => change_breaker(BreakerCommand::Open, options, config).await,
        RelaysCommand::Close(options) => change_breaker(BreakerCommand::Close, options, config).await,
    }
}

async fn list(config: &Config, json: bool) -> anyhow::Result<bool> {
    let settings = config.unchecked_settings();
    let breakers = storage::open(&config.database_url).await?.breakers().await?;
    let breakers = RelaysToday::from_settings(&settings).breakers(breakers);
    let relays = config.named_relays().map(|(name, relay)| (name.as_str(), address(relay)));
    let relays = RelayView::all(relays, &settings, &breakers, Timestamp::now());
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&relays)?);
    } else {
        for relay in &relays {
            anstream::println!("{relay}");
        }
    }
    Ok(true)
}

async fn show(name: &str, config: &Config, json: bool) -> anyhow::Result<bool> {
    let settings = config.unchecked_settings();
    let today = RelaysToday::from_settings(&settings);
    let name = today.name_of(name);
    let relay = find_relay(config, name)?;
    let store = storage::open(&config.database_url).await?;
    let (breakers, refusals) = (store.breakers().await?, store.refusals(name, REFUSALS).await?);
    let breakers = today.breakers(breakers);
    let relays = RelayView::all([(name, address(relay))], &settings, &breakers, Timestamp::now());
    let refusals: Vec<_> = refusals.into_iter().filter_map(ExplainedRefusal::new).collect();
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&json!({"relay": relays, "refusals": refusals}))?);
        return Ok(true);
    }
    for relay in &relays {
        anstream::println!("{relay}");
    }
    match refusals.len() {
        0 => anstream::println!("no refusals in the ledger"),
        count => anstream::println!("the latest {count} refusals:"),
    }
    for refusal in &refusals {
        anstream::println!("{refusal}");
    }
    Ok(true)
}

async fn change_breaker(
    command: BreakerCommand,
    BreakerCommandOptions { name, tenant, reason, json }: BreakerCommandOptions,
    config: &Config,
) -> anyhow::Result<bool> {
    let settings = config.unchecked_settings();
    let today = RelaysToday::from_settings(&settings);
    let name = today.name_of(&name);
    let relay = find_relay(config, name)?;
    if let Some(tenant) = &tenant {
        config.tenant(tenant).map_err(|problem| UsageError(format!("--tenant {tenant:?}: {problem}")))?;
    }
    let typed = match command {
        BreakerCommand::Open => "tidings relays open",
        BreakerCommand::Close => "tidings relays close",
    };
    let order = reason.into_order(typed)?;
    let store = storage::open(&config.database_url).await?;
    let (of, now) = (breaker::breaker_name(name, tenant.as_deref()), Timestamp::now());
    let breaker = command.carry_out(&*store, &of, &order.by, &order.why, now).await?;
    let shown = RelayView::new(name, tenant.as_deref(), address(relay), &settings, breaker, now);
    let said = if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() };
    anstream::println!("{said}");
    Ok(true)
}

/// Without its password, or the reason why it is missing.
fn address(relay: &RelayConfig) -> String {
    match relay.settings() {
        Ok(settings) => settings.relay.to_string(),
        Err(problem) => format!("{} {}", problem.value, problem.problem),
    }
}

fn find_relay<'a>(config: &'a Config, name: &str) -> Result<&'a RelayConfig, UsageError> {
    let found = config.named_relays().find(|(known, _)| *known == name).map(|(_, relay)| relay);
    found.ok_or_else(|| {
        let names: Vec<_> = config.named_relays().map(|(name, _)| name.as_str()).collect();
        UsageError(format!("no stream uses a relay {name:?}; relays in use: {}", names.join(", ")))
    })
}

/// Timeout for each reply from the relay.
const PATIENCE: Duration = Duration::from_secs(30);

const WRONG_TOKEN: &str = "; the relay rejects the access token, even a new one: it must belong to the user in url, and have the scope \
                           https://mail.google.com/ (Google), or https://outlook.office.com/SMTP.Send with SMTP AUTH allowed for the \
                           mailbox (Microsoft)";

/// The relay, and the recipient of a test message.
#[derive(Debug, clap::Args)]
pub struct TestOptions {
    /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of `smtp_url`
    #[arg(value_name = "NAME")]
    name: String,
    /// Also send one message, as the stream that uses the relay
    #[arg(long, value_name = "ADDRESS")]
    to: Option<EmailAddress>,
    /// Print JSON, one line for each phase
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RelayTestLine<'a> {
    phase: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// Returns `false` if a phase failed. Fails if the relay, its address or its stream's DKIM key is missing.
async fn test(TestOptions { name, to, json }: TestOptions, config: &Config) -> anyhow::Result<bool> {
    let settings =
        find_relay(config, &name)?.settings().map_err(|problem| config::ConfigError::Wrong(vec![problem]))?;
    let relays = RelaySet::new(&[(name.clone(), settings.clone())].into(), patient())?;
    let say = |phase: &str, ok: bool, detail: &str| print_phase(&RelayTestLine { phase, ok, detail }, json);
    let route = relays.route(&name, Uuid::new_v4()).ok_or_else(|| anyhow::anyhow!("relay {name} is missing"))?;
    let checked = route.check().await;
    for phase in settings.relay.session_phases() {
        match &checked {
            Err(failure) if failure.phase == phase => {
                let remedy =
                    settings.relay.token_source().filter(|_| phase == AttemptPhase::Auth && failure.reply.is_some());
                let remedy = remedy.map_or("", |_| WRONG_TOKEN);
                return say(phase.name(), false, &format!("{}{remedy}", detail_without_phase(failure)));
            }
            Ok(false) if phase == AttemptPhase::Tls => say(phase.name(), true, "not offered: connection unencrypted")?,
            _ => say(phase.name(), true, "")?,
        };
    }
    if let Err(failure) = checked {
        return say("noop", false, detail_without_phase(&failure));
    }
    let mut ok = say("noop", true, "")?;
    if let Some(to) = to {
        let delivery = send_test_email(&route, &to, &name, config).await?;
        ok = say("mail", delivery.class == AttemptClass::Sent, &delivery.detail)?;
    }
    relays.close().await;
    Ok(ok)
}

/// Without the phase, which begins the line.
fn detail_without_phase(AttemptOutcome { phase, detail, .. }: &AttemptOutcome) -> &str {
    detail.strip_prefix(phase.name()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(detail)
}

fn print_phase(line: &RelayTestLine<'_>, json: bool) -> anyhow::Result<bool> {
    let RelayTestLine { phase, ok, detail } = line;
    match (json, *ok) {
        (true, _) => anstream::println!("{}", serde_json::to_string(line)?),
        (false, true) if detail.is_empty() => anstream::println!("{phase}: ok"),
        (false, true) => anstream::println!("{phase}: ok, {detail}"),
        (false, false) => anstream::println!("{phase}: failed, {detail}"),
    }
    Ok(*ok)
}

/// Sends one email as the relay's stream would.
async fn send_test_email(
    route: &tidings_services::relays::RelayRoute<'_>,
    to: &EmailAddress,
    relay: &str,
    config: &Config,
) -> anyhow::Result<AttemptOutcome> {
    let settings = config.settings(UnknownRecipients::Wait)?;
    let serves = |stream: &StreamSettings| stream.relays.iter().any(|name| name == relay);
    let streams = [StreamName::Bulk, StreamName::Transactional].into_iter();
    let streams =
        streams.flat_map(|name| settings.all_streams(name).map(move |(tenant, stream)| (tenant, name, stream)));
    // Prefer the general stream to a tenant's.
    let user = streams.filter(|(_, _, stream)| serves(stream)).min_by_key(|(tenant, ..)| tenant.is_some());
    let (tenant, name, stream) = user.ok_or_else(|| anyhow::anyhow!("no stream uses the relay {relay}"))?;
    let tenant = tenant.unwrap_or_default();
    let sender = &stream.sender;
    let now = Timestamp::now();
    let text = format!("This is a test of the relay {relay:?} by `tidings relays test`.\n");
    let draft = MessageDraft {
        from: MessageParty { name: &sender.name, address: &sender.address },
        to: MessageParty { name: "", address: to },
        reply_to: sender.reply_to.as_ref(),
        subject: "Test of a relay",
        html: None,
        text: &text,
        id: route.message(),
        of: MessageKind::Single { tenant: "tidings", stream: name },
        date: now,
        message_domain: &sender.domain,
        unsubscribe: None,
        token: None,
        attachments: &[],
    };
    let composed = draft.compose()?;
    let bytes = config.signers()?.sign(tenant, name, composed.bytes, now)?;
    let slot = route.slot(SendLane::Transactional, &composed.envelope_to).await.context("the relays are closed")?;
    Ok(match route.offer(slot, sender.address.as_str(), &composed.envelope_to, &bytes).await {
        Ok(ready) => ready.send_dot().await,
        Err(delivery) => delivery,
    })
}

fn patient() -> SmtpTimeouts {
    SmtpTimeouts { greeting: PATIENCE, command: PATIENCE, data: PATIENCE, dot: PATIENCE, ..SmtpTimeouts::default() }
}
