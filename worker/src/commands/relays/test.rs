//! `tidings relays test`: connects to a relay, and may send a message.

use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use serde::Serialize;
use tidings_activities::relays::Relays;
use tidings_mail::{
    mime::{Draft, MessageKind, Party},
    smtp::{AttemptOutcome, Lane, Timeouts},
};
use tidings_model::{
    EmailAddress,
    attempt::{AttemptClass, Phase},
    settings::{Stream, StreamName, UnknownRecipients},
};
use uuid::Uuid;

use super::named;
use crate::{Config, config};

/// The longest wait for each answer of the relay.
const PATIENCE: Duration = Duration::from_secs(30);

/// The advice about an access token that the relay refuses.
const WRONG_TOKEN: &str = "; the relay refuses the access token, also a new one: it must be of the user in url, and have the scope \
                           https://mail.google.com/ (Google), or https://outlook.office.com/SMTP.Send with SMTP AUTH allowed for the \
                           mailbox (Microsoft)";

/// The relay, and the recipient of a test message.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of `smtp_url`
    #[arg(value_name = "NAME")]
    name: String,
    /// Also sends one message, as the stream that uses the relay
    #[arg(long, value_name = "ADDRESS")]
    to: Option<EmailAddress>,
    /// Answer in JSON, one line for each phase
    #[arg(long)]
    json: bool,
}

/// One line of the answer.
#[derive(Serialize)]
struct Line<'a> {
    phase: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// Carries it out, and says each phase. `false`: one of them failed.
///
/// # Errors
/// There is no such relay, or its address or its stream's DKIM key is missing.
pub(super) async fn run(Options { name, to, json }: Options, config: &Config) -> anyhow::Result<bool> {
    let settings = named(config, &name)?.settings().map_err(|problem| config::Error::Wrong(vec![problem]))?;
    let relays = Relays::new(&[(name.clone(), settings.clone())].into(), patient())?;
    let say = |phase: &str, ok: bool, detail: &str| say(&Line { phase, ok, detail }, json);
    let route = relays.route(&name, Uuid::new_v4()).ok_or_else(|| anyhow::anyhow!("relay {name} is missing"))?;
    let checked = route.check().await;
    for phase in settings.relay.phases() {
        match &checked {
            Err(failure) if failure.phase == phase => {
                let remedy = settings.relay.token().filter(|_| phase == Phase::Auth && failure.reply.is_some());
                let remedy = remedy.map_or("", |_| WRONG_TOKEN);
                return say(phase.name(), false, &format!("{}{remedy}", why(failure)));
            }
            Ok(false) if phase == Phase::Tls => say(phase.name(), true, "not offered: all goes in the clear")?,
            _ => say(phase.name(), true, "")?,
        };
    }
    if let Err(failure) = checked {
        return say("noop", false, why(&failure));
    }
    let mut ok = say("noop", true, "")?;
    if let Some(to) = to {
        let delivery = mail(&route, &to, &name, config).await?;
        ok = say("mail", delivery.class == AttemptClass::Sent, &delivery.detail)?;
    }
    relays.close().await;
    Ok(ok)
}

/// Without the phase, which stands in front.
fn why(AttemptOutcome { phase, detail, .. }: &AttemptOutcome) -> &str {
    detail.strip_prefix(phase.name()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(detail)
}

fn say(line: &Line<'_>, json: bool) -> anyhow::Result<bool> {
    let Line { phase, ok, detail } = line;
    match (json, *ok) {
        (true, _) => anstream::println!("{}", serde_json::to_string(line)?),
        (false, true) if detail.is_empty() => anstream::println!("{phase}: ok"),
        (false, true) => anstream::println!("{phase}: ok, {detail}"),
        (false, false) => anstream::println!("{phase}: failed, {detail}"),
    }
    Ok(*ok)
}

/// One mail, as its stream would send it.
async fn mail(
    route: &tidings_activities::relays::Route<'_>,
    to: &EmailAddress,
    relay: &str,
    config: &Config,
) -> anyhow::Result<AttemptOutcome> {
    let settings = config.settings(UnknownRecipients::Wait)?;
    let serves = |stream: &Stream| stream.relays.iter().any(|name| name == relay);
    let streams = [StreamName::Bulk, StreamName::Transactional].into_iter();
    let streams = streams.flat_map(|name| settings.every(name).map(move |(tenant, stream)| (tenant, name, stream)));
    // A relay of everybody sends as everybody.
    let user = streams.filter(|(_, _, stream)| serves(stream)).min_by_key(|(tenant, ..)| tenant.is_some());
    let (tenant, name, stream) = user.ok_or_else(|| anyhow::anyhow!("no stream uses the relay {relay}"))?;
    let tenant = tenant.unwrap_or_default();
    let sender = &stream.sender;
    let now = Timestamp::now();
    let text = format!("This is a test of the relay {relay:?} by `tidings relays test`.\n");
    let draft = Draft {
        from: Party { name: &sender.name, address: &sender.address },
        to: Party { name: "", address: to },
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
    let slot = route.slot(Lane::Transactional, &composed.envelope_to).await.context("the relays are closed")?;
    Ok(match route.offer(slot, sender.address.as_str(), &composed.envelope_to, &bytes).await {
        Ok(ready) => ready.dot().await,
        Err(delivery) => delivery,
    })
}

fn patient() -> Timeouts {
    Timeouts { greeting: PATIENCE, command: PATIENCE, data: PATIENCE, dot: PATIENCE, ..Timeouts::default() }
}
