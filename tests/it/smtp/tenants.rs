//! Tenants with a sender, a signature and relays of their own.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use tidings_harness::{
    env::{Env, event, settings},
    message_env::{ANN, MessageEnv, submission},
    relay::{Mail, Relay},
    wait::wait_for_emails,
};
use tidings_mail::dkim::{DkimSigner, StreamSigners, TenantSigners};
use tidings_model::{
    Key,
    settings::{DeliveryStreams, RelaySettings, ReturnPath, SenderIdentity, Settings, StreamSettings, TenantSettings},
};
use tidings_needs::needs;
use tidings_store::prelude::*;

const MINUTE: Duration = Duration::from_mins(1);
const TENANTS: [&str; 2] = ["acme", "bolt"];
const RSA: &str = include_str!("../../data/dkim/rsa.pem");
const ED25519: &str = include_str!("../../data/dkim/ed25519.pem");

/// A relay for everybody and one for each tenant.
struct Relays {
    everybodys: Relay,
    own: BTreeMap<&'static str, Relay>,
}

impl Relays {
    async fn start() -> Result<Self> {
        let mut own = BTreeMap::new();
        for tenant in TENANTS {
            own.insert(tenant, Relay::start().await?);
        }
        Ok(Self { everybodys: Relay::start().await?, own })
    }

    /// Settings in which each tenant sends by its own relay, in its own name.
    fn settings(&self) -> Result<Settings> {
        let mut settings = settings("instant", "instant");
        settings.link_keys = Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse()?);
        settings.relays.insert("default".to_owned(), RelaySettings::new(self.everybodys.url().parse()?));
        for (tenant, relay) in &self.own {
            settings.relays.insert((*tenant).to_owned(), RelaySettings::new(relay.url().parse()?));
            settings.tenants.insert((*tenant).to_owned(), TenantSettings::new(streams(tenant)));
        }
        Ok(settings)
    }
}

/// Both streams of a tenant. Digests have a return path.
fn streams(tenant: &str) -> DeliveryStreams {
    let domain = format!("{tenant}.example");
    let sender = SenderIdentity {
        name: tenant.to_uppercase(),
        address: format!("news@{domain}").parse().unwrap(),
        reply_to: Some(format!("help@{domain}").parse().unwrap()),
        domain: domain.clone(),
    };
    let transactional = StreamSettings::new(&[tenant], sender);
    let return_path = Some(ReturnPath { local: "bounce".to_owned(), domain });
    DeliveryStreams { bulk: StreamSettings { return_path, ..transactional.clone() }, transactional }
}

/// A key for digests of everybody and one for each tenant.
fn signers() -> Result<TenantSigners> {
    let of = |domain: &str, pem: &str| anyhow::Ok(Some(DkimSigner::new("s1", domain, pem.as_bytes())?));
    let both = |dkim: Option<DkimSigner>| StreamSigners { bulk: dkim.clone(), transactional: dkim };
    let own = TENANTS.map(|tenant| Ok((tenant.to_owned(), both(of(&format!("{tenant}.example"), ED25519)?))));
    Ok(TenantSigners { general: both(of("tidings.example", RSA)?), tenants: own.into_iter().collect::<Result<_>>()? })
}

/// The only message of a relay.
fn only(relay: &Relay) -> Result<Mail> {
    let mut mails = relay.mails();
    ensure!(mails.len() == 1, "{} messages", mails.len());
    mails.pop().context("no message")
}

/// Headers that name the sender.
fn named(mail: &Mail) -> Result<[String; 4]> {
    let signature: String = String::from_utf8_lossy(&mail.bytes())
        .split("\r\nFrom: ")
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let domain = signature.split(";d=").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    let message_id = mail.header("Message-ID")?;
    let at = message_id.trim_end_matches('>').rsplit('@').next().unwrap_or_default();
    Ok([mail.header("From")?, mail.header("Reply-To").unwrap_or_default(), domain.to_owned(), at.to_owned()])
}

fn expected(tenant: &str) -> [String; 4] {
    let domain = format!("{tenant}.example");
    [format!("{} <news@{domain}>", tenant.to_uppercase()), format!("help@{domain}"), domain.clone(), domain]
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn each_tenants_digest_goes_by_its_own_relay_in_its_own_name() -> Result<()> {
    let relays = Relays::start().await?;
    let mut env = Env::without_worker(relays.settings()?).await?;
    env.signers = signers()?;
    env.start_worker()?;
    for tenant in TENANTS.into_iter().chain(["cask"]) {
        let ann = Key::new(tenant.to_owned(), "activity".to_owned(), "ann".to_owned())?;
        env.events.emit(event(&ann, "e1")).await?;
    }
    for (tenant, relay) in &relays.own {
        wait_for_emails(relay, 1, MINUTE).await?;
        let mail = only(relay)?;
        assert_eq!(named(&mail)?, expected(tenant));
        ensure!(
            mail.from.starts_with("bounce+") && mail.from.ends_with(&format!("@{tenant}.example")),
            "{}",
            mail.from
        );
        let list_id = mail.header("List-Id")?;
        ensure!(list_id == format!("<activity.{tenant}.{tenant}.example>"), "{list_id}");
    }
    // A tenant without a table is as everybody.
    wait_for_emails(&relays.everybodys, 1, MINUTE).await?;
    let mail = only(&relays.everybodys)?;
    let tidings = ["Tidings <digest@tidings.example>", "", "tidings.example", "tidings.example"];
    assert_eq!(named(&mail)?, tidings);
    assert_eq!(mail.from, "digest@tidings.example");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_single_message_goes_by_its_tenants_relay_in_its_tenants_name() -> Result<()> {
    let relays = Relays::start().await?;
    let mut messages = MessageEnv { worker: None, env: Env::without_worker(relays.settings()?).await? };
    messages.env.signers = signers()?;
    messages.work()?;
    for tenant in TENANTS {
        let mut submission = submission("code");
        tenant.clone_into(&mut submission.tenant);
        let accepted = messages.send(&submission).await?;
        let relay = &relays.own[tenant];
        wait_for_emails(relay, 1, MINUTE).await?;
        let mail = only(relay)?;
        assert_eq!(named(&mail)?, expected(tenant));
        assert_eq!((mail.from, mail.to), (format!("news@{tenant}.example"), vec![ANN.to_owned()]));
        let attempts = messages.env.store.attempts(accepted.message.id).await?;
        assert_eq!(attempts.iter().map(|attempt| attempt.relay.as_str()).collect::<Vec<_>>(), [tenant]);
    }
    assert_eq!(relays.everybodys.count(), 0);
    Ok(())
}
