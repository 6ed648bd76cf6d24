//! SpamAssassin's score of a digest as it leaves, without network tests.

use std::{
    env,
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tidings_harness::{
    env::{Env, event, key, settings, wait_for_emails},
    relay::Mail,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_proto::v1;

/// 5 is spam.
const BOUND: f64 = 1.0;

/// The score, and the tests that made it.
fn score(spamassassin: &str, mail: &[u8]) -> Result<(f64, String)> {
    let mut child = Command::new(spamassassin)
        .args(["--local", "--test-mode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    child.stdin.take().context("no input")?.write_all(mail)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "spamassassin failed");
    let said = String::from_utf8_lossy(&output.stdout).replace("\n\t", " ");
    let status = said.lines().find_map(|line| line.strip_prefix("X-Spam-Status: ")).context("no X-Spam-Status")?;
    let score = status.split_whitespace().find_map(|word| word.strip_prefix("score=")).context("no score")?;
    Ok((score.parse()?, status.to_owned()))
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
