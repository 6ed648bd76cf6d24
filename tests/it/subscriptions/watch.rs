//! Notices as an operator sees them: the gauges, the statistics, and the dead letters with their remedy.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tidings_harness::{
    cli_env::CliEnv,
    env::count,
    http,
    notice_receiver::{NoticeReceiver, SECRET_ENV},
    port::Port,
    wait::eventually,
};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

/// A worker that exports metrics and delivers notices about consent to `crm`.
async fn watched(receiver: &NoticeReceiver) -> Result<(CliEnv, Port)> {
    let mut cli = CliEnv::start("after 1d").await?;
    let port = Port::take()?;
    let path = cli.folder.path().join("tidings.toml");
    let config = fs::read_to_string(&path)?;
    let config = format!(
        "metrics_listen = \"127.0.0.1:{}\"\n{config}[[subscribe]]\nname = \"crm\"\nurl = \"{}\"\n\
         events = [\"recipient.unsubscribed\"]\nsecret_env = \"{SECRET_ENV}\"\n",
        port.number,
        receiver.url()
    );
    fs::write(&path, config)?;
    fs::write(
        cli.folder.path().join("people.csv"),
        "tenant,user,address\nacme,ann,ann@example.test\nacme,bo,bo@example.test\n",
    )?;
    cli.run(&["recipients", "import", "people.csv"]).await?;
    cli.start_worker()?;
    let subscribed =
        async || Ok((count(cli.folder.path(), "SELECT COUNT(*) FROM subscriptions").await? == 1).then_some(()));
    eventually("the worker subscribes", MINUTE, subscribed).await?;
    Ok((cli, port))
}

/// The values of metrics of a subscription in one answer; `None` while the worker does not export them.
async fn gauges<const N: usize>(port: &Port, names: [&str; N], subscription: &str) -> [Option<f64>; N] {
    let told = http::request(port.number, "GET /metrics HTTP/1.1\r\n", "").await;
    let told = told.map(|(_, body)| body).unwrap_or_default();
    names.map(|name| {
        let series = format!("tidings_{name}{{subscription=\"{subscription}\"}} ");
        told.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok())
    })
}

/// Waits until the gauges of `crm` show this number of waiting notices and of dead ones.
async fn shows(port: &Port, waiting: f64, dead: f64) -> Result<()> {
    let shown = async || {
        let now = gauges(port, ["waiting_webhook_events", "dead_webhook_events"], "crm").await;
        Ok((now == [Some(waiting), Some(dead)]).then_some(()))
    };
    eventually(&format!("{waiting} notices wait and {dead} are dead"), MINUTE * 2, shown).await
}

/// Withdraws the consent of a user, a fact with a notice.
async fn withdraw(cli: &CliEnv, user: &str) -> Result<()> {
    cli.run(&["consent", "withdraw", &format!("acme/activity/{user}"), "--by", "carol"]).await.map(drop)
}

/// The statistics of `crm`.
async fn notices(cli: &CliEnv) -> Result<Value> {
    let stats: Value = serde_json::from_str(&cli.run(&["stats", "--json"]).await?)?;
    Ok(stats["webhook_events"].as_array().and_then(|all| all.first()).context("no notices")?.clone())
}

/// The output of `tidings dead-letters list` besides its rows.
async fn remedies(cli: &CliEnv, filter: &[&str]) -> Result<String> {
    let listed = cli.tidings().args(["dead-letters", "list"]).args(filter).output().await?;
    Ok(String::from_utf8(listed.stderr)?.replace("no dead letters\n", ""))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn waiting_and_dead_notices_are_seen_with_their_remedy() -> Result<()> {
    let receiver = NoticeReceiver::start(|_, _| 500).await?;
    let (cli, port) = watched(&receiver).await?;
    withdraw(&cli, "ann").await?;
    shows(&port, 1.0, 0.0).await?;
    let older = async || Ok(gauges(&port, ["oldest_webhook_event_seconds"], "crm").await[0].filter(|age| *age > 0.0));
    eventually("the notice grows old", MINUTE, older).await?;
    assert_eq!(gauges(&port, ["waiting_webhook_events"], "other").await, [Some(0.0)]);
    let waiting = notices(&cli).await?;
    assert_eq!((&waiting["subscription"], &waiting["waiting"]), (&json!("crm"), &json!(1)), "{waiting}");
    assert!(waiting["oldest"].is_string() && waiting["gone_at"].is_null(), "{waiting}");
    assert!(cli.run(&["stats"]).await?.contains("\nwebhook events to crm: 1 waiting, the oldest for "));
    assert_eq!(remedies(&cli, &[]).await?, "");

    receiver.says(|_, _| 410);
    withdraw(&cli, "bo").await?;
    shows(&port, 0.0, 2.0).await?;
    let dead = notices(&cli).await?;
    assert_eq!(
        (&dead["waiting"], &dead["oldest"], &dead["dead_letters"]),
        (&json!(0), &Value::Null, &json!(2)),
        "{dead}"
    );
    assert!(dead["gone_at"].is_string(), "{dead}");
    let said = remedies(&cli, &[]).await?;
    let (_, replay) = said.trim().split_once(", then tidings ").context(said.clone())?;
    assert!(
        said.starts_with("not delivered to crm: 2 webhook events; see tidings subscriptions dead-letters crm, "),
        "{said}"
    );
    for filter in [&["--tenant", "acme"][..], &["--source", "webhook"], &["--json"]] {
        assert_eq!(remedies(&cli, filter).await?, "", "{filter:?}");
    }

    receiver.says(|_, _| 200);
    let replay: Vec<_> = replay.split(' ').collect();
    assert_eq!(cli.run(&replay).await?, "2 webhook events will be redelivered\n");
    let taken = async || Ok((receiver.accepted()?.len() == 2).then_some(()));
    eventually("both notices are taken", MINUTE, taken).await?;
    shows(&port, 0.0, 0.0).await?;
    let users: BTreeSet<_> = receiver.accepted()?.into_iter().map(|one| one.user()).collect();
    assert_eq!(users, ["ann", "bo"].map(str::to_owned).into());
    Ok(())
}
