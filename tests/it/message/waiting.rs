//! A single message that waits has the sender, the links and the relay of today (rule 60).

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use mail_parser::MessageParser;
use tidings_activities::{CancellableResult, message};
use tidings_harness::{
    env::{activities, settings, sqlite},
    message_env::{BODY, of, submission},
    relay::{Act, At, Fault, Relay},
};
use tidings_model::{
    UnsubscribeLink,
    link_keys::LinkKeys,
    message::contract::{AttemptResult, MessageSendInput},
    records::{AuditFilter, PageRequest},
    settings::{RelaySettings, Settings, StreamName},
    step::SendAnswer,
    window::DigestOutcome,
};
use tidings_operations::submit::{self, MessageSubmission};
use tidings_services::StepServices;
use tidings_store::prelude::*;

const OLD_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const NEW_KEY: &str = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA";

/// Links by this key, and the sender of both streams.
fn configured(sender: &str, key: &str) -> Result<Settings> {
    let mut settings = settings("after 1s", "after 1s");
    for stream in [&mut settings.streams.bulk, &mut settings.streams.transactional] {
        stream.sender.address = sender.parse()?;
    }
    settings.link_keys = Some(key.parse()?);
    settings.pages.public_url = Some("https://mail.tidings.example".to_owned());
    Ok(settings)
}

async fn attempt(deps: &StepServices) -> Result<SendAnswer> {
    let (key, asked_at) = (of("k"), Timestamp::now());
    let input = MessageSendInput { asked_at, key, failed: 0, delays: None, keeps_ends: true, unrecorded: None };
    match message::send(deps, &input, std::future::pending()).await? {
        CancellableResult::Done(AttemptResult { sent, .. }) => Ok(sent),
        CancellableResult::Cancelled => anyhow::bail!("nobody cancelled the attempt"),
    }
}

/// The link of `List-Unsubscribe`.
fn unsubscribe(bytes: &[u8]) -> Result<String> {
    let parsed = MessageParser::default().parse(bytes).context("no message")?;
    let header = parsed.header_raw("List-Unsubscribe").context("no List-Unsubscribe")?;
    Ok(header.trim().trim_matches(['<', '>']).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn until_a_dot_a_single_message_has_the_sender_and_links_of_today() -> Result<()> {
    for at in [At::Rcpt, At::Dot] {
        let folder = tempfile::tempdir()?;
        let (store, relay) = (sqlite(folder.path()).await?, Relay::start().await?);
        let deps = activities(store.clone(), &relay.url(), configured("digest@old.example", OLD_KEY)?)?;
        let submission = MessageSubmission { stream: StreamName::Bulk, ..submission("k") };
        let StepServices { renderer, signers, settings, .. } = &deps;
        let accepted = submit::accept(&*store, None, renderer, signers, settings, &submission).await?;
        let id = accepted.message.id;
        relay.fault(Fault::new(at, Act::Reply("451 4.3.0 later".to_owned())).times(1));
        ensure!(matches!(attempt(&deps).await?, SendAnswer::Deferred { .. }));
        let before = store.message_bytes("acme", id).await?.context("no message")?;

        // Another sender, another key, and another relay.
        let mut today = configured("digest@new.example", NEW_KEY)?;
        today.relays.insert("second".to_owned(), RelaySettings::new(relay.url().parse()?));
        for stream in [&mut today.streams.bulk, &mut today.streams.transactional] {
            stream.relays = vec!["second".to_owned()];
        }
        let keys: LinkKeys = NEW_KEY.parse()?;
        let sent = attempt(&activities(store.clone(), &relay.url(), today)?).await?;
        ensure!(
            matches!(&sent, SendAnswer::Closed { closed, .. } if closed.outcome == DigestOutcome::Sent),
            "{sent:?}"
        );
        let mail = relay.mails().pop().context("no mail")?;
        let remakes = AuditFilter {
            tenant: None,
            digest_type: None,
            user: None,
            actor: None,
            action: Some("remake".to_owned()),
            since: None,
            until: None,
            page: PageRequest { limit: 9, after: None },
        };
        let remakes = store.audit_entries(&remakes).await?.rows.len();
        if at == At::Dot {
            ensure!(
                mail.bytes() == before && mail.from == "digest@old.example",
                "the bytes of a message stand after a dot"
            );
            assert_eq!(remakes, 0);
            continue;
        }
        let bytes = mail.bytes();
        assert_eq!((mail.from.as_str(), remakes), ("digest@new.example", 1));
        assert!(mail.header("From")?.contains("digest@new.example"));
        assert_eq!(mail.header("Message-ID")?, format!("<{}>", accepted.message.message_id));
        let (old, new) = (unsubscribe(&before)?, unsubscribe(&bytes)?);
        let token = new.rsplit('/').next().unwrap_or_default();
        ensure!(old != new && UnsubscribeLink::from_token(&keys, token).is_some(), "{old}, {new}");
        assert!(String::from_utf8(bytes)?.contains(BODY));
    }
    Ok(())
}
