//! Rule 26 with real processes: a worker pauses before it records that it is past the dot, another worker sends
//! meanwhile, and the first one resumes.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::Result;
use tidings_harness::{
    cli_env::CliEnv,
    env::{key, sqlite_url},
    relay::{Act, At, Fault},
    wait::{eventually, wait_for_emails},
};
use tidings_model::attempt::AttemptClass;
use tidings_needs::needs;
use tidings_store::{SqliteStore, prelude::*};

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
    // Each open poll of the paused worker may take the task, which then comes back after ten seconds.
    wait_for_emails(&cli.relay, 1, MINUTE * 3).await?;
    let store = SqliteStore::connect(&sqlite_url(cli.folder.path())).await?;
    let digest = async || Ok(store.digests(&ann, 1).await?.pop().filter(|digest| digest.is_sent()));
    let digest = eventually("the digest is sent", MINUTE, digest).await?;

    first.go_on()?;
    // The first one is fenced, or hears from Temporal before that it was given up.
    let ends = || anyhow::Ok(fs::read_to_string(cli.worker_log())?.matches("attempt ended").count());
    let ended = async || Ok((ends()? == 2).then_some(()));
    eventually("the first attempt ends, too", MINUTE, ended).await?;
    // The ledger hears of a first attempt with its dot: only one of the two came so far.
    let attempts = store.attempts(digest.digest_id).await?;
    let classes: Vec<_> = attempts.iter().map(|attempt| attempt.class).collect();
    assert_eq!(classes, [Some(AttemptClass::Sent)]);
    assert_eq!(cli.relay.mails().len(), 1, "a second mail");
    Ok(())
}
