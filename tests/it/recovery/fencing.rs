//! Rule 26 with real processes: a worker pauses before it records that it is past the dot, another worker sends
//! meanwhile, and the first one resumes.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use tidings_harness::{
    cli_env::CliEnv,
    env::{eventually, key, wait_for_emails},
    relay::{Act, At, Fault},
};
use tidings_model::attempt::AttemptClass;
use tidings_needs::needs;
use tidings_store::{Sqlite, prelude::*};

const MINUTE: Duration = Duration::from_mins(1);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_paused_before_the_final_dot_is_fenced_when_it_resumes() -> Result<()> {
    let mut cli = CliEnv::start("instant").await?;
    let ann = key("activity", "ann");
    cli.import(&BTreeSet::from([ann.clone()])).await?;
    cli.start_worker()?;
    // It has said DATA, and waits for leave to send the content.
    cli.relay.fault(Fault::new(At::Data, Act::Slow(Duration::from_secs(3))).times(1));
    cli.run(&["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"]).await?;
    cli.relay.until("it says DATA", |relay| relay.commands().iter().any(|command| command == "DATA")).await?;
    let first = cli.pause_worker()?;

    cli.start_worker()?;
    wait_for_emails(&cli.relay, 1, MINUTE).await?;
    let store = Sqlite::connect(&format!("sqlite://{}", cli.ledger().display())).await?;
    let digest = async || Ok(store.digests(&ann, 1).await?.pop().filter(|digest| digest.is_sent()));
    let digest = eventually("the digest is sent", MINUTE, digest).await?;

    first.go_on()?;
    let ended = async || {
        let attempts = store.attempts(digest.digest_id).await?;
        let first = attempts.first().context("no attempt")?;
        Ok(first.late.is_some().then(|| attempts.clone()))
    };
    let attempts = eventually("the first attempt ends", MINUTE, ended).await?;
    let classes: Vec<_> =
        attempts.iter().map(|attempt| attempt.class.map(AttemptClass::name).unwrap_or_default()).collect();
    assert_eq!(classes, ["fenced", "sent"]);
    assert!(attempts[0].past_the_dot_at.is_none());
    assert_eq!(cli.relay.mails().len(), 1, "a second mail");
    Ok(())
}
