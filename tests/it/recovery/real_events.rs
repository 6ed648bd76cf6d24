//! 10,056 real events for 20 recipients through the real binary: every one of them in exactly one mail, also while the
//! worker is killed again and again and the server goes away. The checker, which shares no code with Tidings, judges.

use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tidings_harness::{checker::Verdict, cli_env::CliEnv, wait::eventually};
use tidings_model::Key;
use tidings_needs::needs;
use uuid::Uuid;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/activity.ndjson.gz");
const EVENTS: usize = 10_056;
const CADENCE: &str = "after 3s";
/// Parts that the file is emitted in when things go wrong, and something goes wrong during each.
const PARTS: usize = 6;
/// The part during which the server goes away; the worker is killed during every other.
const OUTAGE: usize = 3;
/// The length of an outage of the server.
const AWAY: Duration = Duration::from_secs(3);
/// The latest kill after a part's first event: the length of its window, and two seconds for the digests.
const KILL_WITHIN: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Addressed {
    tenant: String,
    digest: String,
    user: String,
}

/// The lines of the file, and their keys.
fn events() -> Result<(Vec<String>, BTreeSet<Key>)> {
    let output = Command::new("gzip").args(["-dc", FILE]).output().context("gzip does not start")?;
    ensure!(output.status.success(), "gzip: {}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = String::from_utf8(output.stdout)?.split_inclusive('\n').map(str::to_owned).collect();
    let key = |line: &String| {
        let Addressed { tenant, digest, user } = serde_json::from_str(line)?;
        Ok(Key::new(tenant, digest, user)?)
    };
    let keys = lines.iter().map(key).collect::<Result<BTreeSet<_>>>()?;
    ensure!((lines.len(), keys.len()) == (EVENTS, 20), "{} events for {} keys", lines.len(), keys.len());
    Ok((lines, keys))
}

fn assert_each_event_is_in_one_mail(verdict: &Verdict) {
    println!("{verdict:#?}");
    assert_eq!(verdict.code, Some(0), "the checker found violations");
    assert_eq!((verdict.acknowledged, verdict.events), (EVENTS as u64, EVENTS as u64));
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn every_real_event_is_counted_in_exactly_one_email() -> Result<()> {
    let (_, keys) = events()?;
    let mut cli = CliEnv::start(CADENCE).await?;
    cli.import(&keys).await?;
    cli.start_worker()?;

    let acknowledged = cli.emit(Path::new(FILE)).await?;
    cli.settled(&keys, Duration::from_mins(1)).await?;

    let verdict = cli.check(&acknowledged)?;
    assert_each_event_is_in_one_mail(&verdict);
    assert_eq!((verdict.mails, verdict.second_mails), (verdict.digests, 0), "a mail for each digest");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn every_real_event_is_counted_in_exactly_one_email_whatever_is_killed() -> Result<()> {
    let (lines, keys) = events()?;
    let mut cli = CliEnv::start(CADENCE).await?;
    // A worker that is killed past the dot keeps its message from being sent again for so long, by default ten minutes (rule 26).
    cli.add_setting("[relay.default]\nreply_timeout = \"5s\"")?;
    cli.import(&keys).await?;
    cli.start_worker()?;

    let mut acknowledged = String::new();
    for (part, lines) in lines.chunks(lines.len().div_ceil(PARTS)).enumerate() {
        let events = cli.folder.path().join(format!("{part}.ndjson"));
        fs::write(&events, lines.concat())?;
        // What the emit before acknowledged is read already.
        fs::write(cli.acknowledged(), "")?;
        let emit = cli.emit(&events);
        let trouble =
            async { if part == OUTAGE { server_goes_away(&mut cli).await } else { worker_is_killed(&mut cli).await } };
        let (ids, trouble) = tokio::join!(emit, trouble);
        let mails = trouble?;
        acknowledged += &ids?;
        // The next trouble meets a worker that is at work.
        eventually("a mail after the trouble, or none to be sent", Duration::from_mins(1), async || {
            Ok((cli.relay.mails().len() > mails || cli.is_idle(&keys).await?).then_some(()))
        })
        .await?;
    }
    cli.settled(&keys, Duration::from_secs(90)).await?;

    assert_each_event_is_in_one_mail(&cli.check(&acknowledged)?);
    Ok(())
}

/// SIGKILL at a random moment: while events arrive, while a window is open, or while its digests are made and sent.
/// Answers with the number of mails then.
async fn worker_is_killed(cli: &mut CliEnv) -> Result<usize> {
    let moment = KILL_WITHIN.mul_f64(f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX));
    tokio::time::sleep(moment).await;
    cli.kill_worker()?;
    let mails = cli.relay.mails().len();
    println!("{mails} mails, and the worker was killed after {moment:?}");
    cli.start_worker()?;
    Ok(mails)
}

/// SIGKILL while `tidings emit` runs, and a restart on the same database. Answers with the number of mails then.
async fn server_goes_away(cli: &mut CliEnv) -> Result<usize> {
    let acknowledged = cli.acknowledged();
    eventually("emit is under way", Duration::from_secs(10), async || {
        Ok(fs::metadata(&acknowledged).is_ok_and(|file| file.len() > 0).then_some(()))
    })
    .await?;
    cli.server.stop();
    let mails = cli.relay.mails().len();
    let ids = fs::read_to_string(&acknowledged)?.lines().count();
    println!("{mails} mails, {ids} events of the part acknowledged, and the server went away");
    tokio::time::sleep(AWAY).await;
    cli.server.restart().await?;
    Ok(mails)
}
