//! SpamAssassin's score of a digest as it leaves, without network tests.

use std::{
    env,
    io::{Seek, Write},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::Timestamp;
use tidings_harness::{
    env::{Env, event, key, settings},
    relay::Mail,
    wait::wait_for_emails,
};
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty, ThreadPosition, UnsubscribeUris},
    render::TemplateRenderer,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_proto::v1;
use uuid::Uuid;

/// 5 is spam.
const BOUND: f64 = 1.0;
/// The shipped languages.
const LANGUAGES: [&str; 12] = ["ar", "de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt-BR", "sv", "zh-Hans"];

/// The score of a message, and the tests that made it.
fn score(spamassassin: &str, mail: &[u8]) -> Result<(f64, String)> {
    scores(spamassassin, &[], mail)?.into_iter().next().context("no X-Spam-Status")
}

/// The score of each message of the input, in order, and the tests that made it.
fn scores(spamassassin: &str, arguments: &[&str], mails: &[u8]) -> Result<Vec<(f64, String)>> {
    let mut input = tempfile::tempfile()?;
    input.write_all(mails)?;
    input.rewind()?;
    let output = Command::new(spamassassin)
        .args(["--local", "--test-mode"])
        .args(arguments)
        .stdin(input)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "spamassassin failed");
    let said = String::from_utf8_lossy(&output.stdout).replace("\n\t", " ");
    let scored = |status: &str| -> Result<(f64, String)> {
        let score = status.split_whitespace().find_map(|word| word.strip_prefix("score=")).context("no score")?;
        Ok((score.parse()?, status.to_owned()))
    };
    said.lines().filter_map(|line| line.strip_prefix("X-Spam-Status: ")).map(scored).collect()
}

/// A shipped email in a language, as it leaves.
fn shipped(renderer: &TemplateRenderer, name: &str, language: &str) -> Result<Vec<u8>> {
    let rendered = renderer.preview(name, Some(language))?;
    let draft = MessageDraft {
        from: MessageParty { name: "Acme", address: &"digest@acme.example".parse()? },
        to: MessageParty { name: "Ann", address: &"ann@example.com".parse()? },
        reply_to: None,
        subject: &rendered.subject,
        html: Some(&rendered.html),
        text: &rendered.text,
        id: Uuid::nil(),
        of: MessageKind::Digest {
            tenant: "acme",
            digest_type: name,
            events: 3,
            list_host: "acme.example",
            threading: ThreadPosition::Alone,
        },
        date: Timestamp::now(),
        message_domain: "acme.example",
        unsubscribe: Some(UnsubscribeUris { url: "https://mail.acme.example/u/sample", mailto: None }),
        token: None,
        attachments: &[],
    };
    Ok(draft.compose()?.bytes)
}

#[needs(spamassassin)]
#[test]
fn spamassassin_scores_every_shipped_email_far_below_spam() -> Result<()> {
    let spamassassin = env::var("TIDINGS_TEST_SPAMASSASSIN").context("TIDINGS_TEST_SPAMASSASSIN is not set")?;
    let renderer = TemplateRenderer::new(None)?;
    let names = renderer.names();
    let mails: Vec<_> = names.iter().flat_map(|name| LANGUAGES.map(|language| (name, language))).collect();
    // One run for all, because the program takes a second to start.
    let mut mbox = Vec::new();
    for (name, language) in &mails {
        mbox.extend_from_slice(b"From digest Tue Feb  4 07:00:00 2025\n");
        mbox.extend(shipped(&renderer, name, language)?.into_iter().filter(|byte| *byte != b'\r'));
        mbox.extend_from_slice(b"\n\n");
    }
    let scores = scores(&spamassassin, &["--mbox"], &mbox)?;
    assert_eq!(scores.len(), mails.len());
    for ((name, language), (score, status)) in mails.into_iter().zip(scores) {
        ensure!(score < BOUND, "{name} in {language}: {status}");
    }
    Ok(())
}

async fn digest(env: &Env, key: &Key, events: usize) -> Result<Mail> {
    let before = env.relay.mails().len();
    let events = (0..events).map(|n| {
        let entity_id = format!("PR-{}", n / 3);
        env.events.emit(v1::Event { entity_id, ..event(key, &format!("e{n}")) })
    });
    try_join_all(events).await?;
    wait_for_emails(&env.relay, before + 1, Duration::from_mins(1)).await?;
    env.relay.mails().pop().context("no mail")
}

#[needs(temporal, spamassassin)]
#[tokio::test(flavor = "multi_thread")]
async fn spamassassin_scores_digests_far_below_spam() -> Result<()> {
    let spamassassin = env::var("TIDINGS_TEST_SPAMASSASSIN").context("TIDINGS_TEST_SPAMASSASSIN is not set")?;
    let env = Env::start(settings("after 2s", "instant")).await?;
    for (digest_type, events) in [("activity", 40), ("alerts", 1)] {
        let mail = digest(&env, &key(digest_type, "ann"), events).await?;
        let (score, status) = score(&spamassassin, &mail.bytes())?;
        println!("{digest_type}: {status}");
        ensure!(score < BOUND, "{digest_type}: {status}");
    }

    // It can tell.
    let gtube = "Subject: x\r\n\r\nXJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";
    ensure!(score(&spamassassin, gtube.as_bytes())?.0 > 100.0, "SpamAssassin does not work");
    Ok(())
}
