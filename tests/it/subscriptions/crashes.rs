//! `tidings worker` is killed (SIGKILL) while it delivers: every notice arrives at least once, and the log has no secret.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Result, ensure};
use tidings_harness::{
    cli_env::CliEnv,
    env::{count, key},
    notice_receiver::{NoticeReceiver, SECRET, SECRET_ENV},
    wait::eventually,
};
use tidings_needs::needs;

const USERS: usize = 40;

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn no_notice_is_lost_though_the_worker_is_killed_again_and_again() -> Result<()> {
    let receiver = NoticeReceiver::start(|n, _| if n % 5 == 4 { 500 } else { 200 }).await?;
    let mut cli = CliEnv::start("after 1s").await?;
    let path = cli.folder.path().join("tidings.toml");
    let config = fs::read_to_string(&path)?;
    let subscribe = format!(
        "[[subscribe]]\nname = \"crm\"\nurl = \"{}\"\nevents = [\"digest.sent\", \"recipient.unsubscribed\"]\n\
         secret_env = \"{SECRET_ENV}\"\n",
        receiver.url()
    );
    fs::write(&path, format!("{config}{subscribe}"))?;
    let keys: BTreeSet<_> = (0..USERS).map(|n| key("activity", &format!("user-{n}"))).collect();
    cli.import(&keys).await?;
    cli.start_worker()?;
    let known = async || {
        let rows = count(cli.folder.path(), "SELECT COUNT(*) FROM subscriptions").await?;
        Ok((rows == 2).then_some(()))
    };
    eventually("the worker subscribes", Duration::from_mins(1), known).await?;
    let lines = keys.iter().map(|key| {
        format!(
            "{{\"tenant\":\"acme\",\"user\":\"{0}\",\"digest\":\"activity\",\"event_id\":\"{0}\",\"category\":\"comment\",\
             \"occurred_at\":\"2026-11-25T08:00:00Z\"}}\n",
            key.user
        )
    });
    let events = cli.folder.path().join("events.ndjson");
    fs::write(&events, lines.collect::<String>())?;
    cli.emit(&events).await?;
    for round in 1..4 {
        let enough = async || Ok((receiver.received()?.len() >= round * 8).then_some(()));
        eventually("notices arrive", Duration::from_mins(2), enough).await?;
        cli.kill_worker()?;
        cli.start_worker()?;
    }
    let all = async || Ok((receiver.accepted()?.len() >= USERS).then_some(()));
    eventually("each digest is told", Duration::from_mins(3), all).await?;
    let users: BTreeSet<_> = receiver.accepted()?.into_iter().map(|one| one.user()).collect();
    assert_eq!(users.len(), USERS);
    let ended = async || {
        let waiting = count(cli.folder.path(), "SELECT COUNT(*) FROM notices WHERE ended_at IS NULL").await?;
        Ok((waiting == 0).then_some(()))
    };
    eventually("each end is recorded", Duration::from_mins(2), ended).await?;
    let log = fs::read_to_string(cli.worker_log())?;
    ensure!(!log.contains(SECRET.trim_start_matches("whsec_")), "a secret is in the log");
    let (code, said) = cli.ask(&["subscriptions", "test", "crm"]).await?;
    ensure!(code == 0 || said.contains("500"), "{code}: {said}");
    Ok(())
}
