//! The metrics that a worker exports to Prometheus.

use std::{fs, time::Duration};

use anyhow::Result;
use tidings_harness::{
    cli_env::CliEnv,
    env::key,
    port::Port,
    relay::{Act, At, Fault},
    signals::{malformed, signal},
    wait::eventually,
};
use tidings_needs::needs;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::metric_queries;

const MINUTE: Duration = Duration::from_mins(1);

/// The answer to `GET /metrics` with its headers, or `None` while the port is closed.
async fn scraped(port: u16) -> Result<Option<String>> {
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)).await else { return Ok(None) };
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(Some(answer))
}

/// The answer to `GET /metrics` once it has these lines.
async fn scraped_with(port: &Port, lines: &[&str]) -> Result<String> {
    let has = |told: &String| lines.iter().all(|line| told.contains(&format!("\n{line}\n")));
    eventually(&lines.join(", "), MINUTE, async || Ok(scraped(port.number).await?.filter(has))).await
}

/// A worker that exports metrics. Its relay refuses ann. The digest type `news` has no template.
async fn watched() -> Result<(CliEnv, Port)> {
    let mut cli = CliEnv::start("instant").await?;
    let port = Port::take()?;
    let file = cli.folder.path().join("tidings.toml");
    let configured = fs::read_to_string(&file)?;
    let listen = format!("metrics_listen = \"127.0.0.1:{}\"", port.number);
    fs::write(&file, format!("{listen}\n{configured}[digest.news]\ncadence = \"instant\"\n[tenant.bolt]\n"))?;
    fs::write(
        cli.folder.path().join("people.csv"),
        "tenant,user,address\nacme,ann,ann@example.test\nbolt,bo,bo@example.test\n",
    )?;
    cli.run(&["recipients", "import", "people.csv"]).await?;
    cli.relay.fault(Fault::new(At::Dot, Act::Reply("554 5.6.0 no".into())).to("ann@example.test"));
    cli.start_worker()?;
    Ok((cli, port))
}

async fn emit(cli: &CliEnv, tenant: &str, user: &str, digest: &str) -> Result<()> {
    let of = ["emit", "--tenant", tenant, "--user", user, "--digest", digest, "--category", "comment"];
    cli.run(&of).await.map(drop)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_counts_ends_lateness_dead_letters_and_what_waits() -> Result<()> {
    let (cli, port) = watched().await?;
    emit(&cli, "acme", "ann", "activity").await?;
    emit(&cli, "bolt", "bo", "news").await?;
    signal(&cli.server.client().await?, &key("activity", "cy"), malformed()).await?;
    fs::write(cli.folder.path().join("text"), "Hello")?;
    let message =
        ["send", "--tenant", "acme", "--to", "ann@example.test", "--key", "k", "--subject", "Hi", "--text", "text"];
    cli.run(&message).await?;

    let lines = [
        "tidings_attempts_total{relay=\"default\",class=\"failed\"} 2",
        "tidings_attempts_total{relay=\"default\",class=\"sent\"} 1",
        "tidings_digests_total{digest_type=\"activity\",outcome=\"failed\"} 1",
        "tidings_digests_total{digest_type=\"news\",outcome=\"sent\"} 1",
        "tidings_digests_total{digest_type=\"other\",outcome=\"sent\"} 0",
        "tidings_events_total{digest_type=\"activity\"} 1",
        "tidings_events_total{digest_type=\"news\"} 1",
        "tidings_dead_letters_total 1",
        "tidings_digests_failed_total 1",
        "tidings_messages_failed_total 1",
        "tidings_claim_lateness_seconds_bucket{le=\"60.0\",digest_type=\"activity\"} 1",
        "tidings_claim_lateness_seconds_count{digest_type=\"news\"} 1",
        "tidings_acceptance_lateness_seconds_count{digest_type=\"activity\"} 0",
        "tidings_acceptance_lateness_seconds_count{digest_type=\"news\"} 1",
        "tidings_undelivered_digests{tenant=\"bolt\",digest_type=\"news\"} 0",
        "tidings_overdue_digests{tenant=\"other\",digest_type=\"activity\"} 0",
        "tidings_oldest_overdue_seconds{tenant=\"other\",digest_type=\"activity\"} 0.0",
        "tidings_suppressions{reason=\"hard_bounce\"} 0",
        "tidings_troubled_runs{trouble=\"timed_out\"} 0",
        "tidings_delivery_events_total{relay=\"default\",provider=\"other\",kind=\"bounced\"} 0",
        "tidings_task_queue_backlog{task_queue=\"tidings\",kind=\"workflow\"} 0",
        "tidings_task_queue_backlog_age_seconds{task_queue=\"tidings-transactional\",kind=\"activity\"} 0.0",
        "tidings_relay_open{relay=\"default\"} 0",
    ];
    let told = scraped_with(&port, &lines).await?;
    for source in ["store", "temporal"] {
        let of = format!("\ntidings_poller_last_success_timestamp_seconds{{source=\"{source}\"}} ");
        let value = told.split(&of).nth(1).and_then(|rest| rest.lines().next()?.parse::<f64>().ok());
        assert!(value.is_some_and(|at| at > 1.7e9), "{source} {value:?} in\n{told}");
    }
    // The first look asks for every figure, so that nothing that a query reads can still be absent.
    // A gateway exports what it counts of webhooks.
    let queries: Vec<_> = metric_queries::all()?.into_iter().filter(|query| !query.contains("_webhook_")).collect();
    let missing: Vec<_> = queries.iter().flat_map(|query| metric_queries::missing(query, &told)).collect();
    assert!(queries.len() > 30 && missing.is_empty(), "{} queries lack {missing:?} in\n{told}", queries.len());
    assert!(told.contains("content-type: application/openmetrics-text; version=1.0.0"), "{told}");
    // A tenant without a table in the configuration has no series of its own.
    assert!(told.ends_with("# EOF\n") && !told.contains("acme") && !told.contains("ann"), "{told}");
    let log = fs::read_to_string(cli.worker_log())?;
    for alert in ["digest_failed", "message_failed", "dead_letters", "template_fallback"] {
        assert!(log.contains(&format!("alert={alert} ")), "no {alert} in\n{log}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_sees_an_open_breaker_and_the_digest_that_waits() -> Result<()> {
    let (cli, port) = watched().await?;
    cli.relay.heal();
    cli.relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.7.606 we do not like you".into())));
    emit(&cli, "bolt", "bo", "activity").await?;
    let lines = [
        "tidings_relay_open{relay=\"default\"} 1",
        "tidings_undelivered_digests{tenant=\"bolt\",digest_type=\"activity\"} 1",
        "tidings_overdue_digests{tenant=\"bolt\",digest_type=\"activity\"} 1",
    ];
    let told = scraped_with(&port, &lines).await?;
    assert!(!told.contains("tidings_oldest_overdue_seconds{tenant=\"bolt\",digest_type=\"activity\"} 0.0\n"), "{told}");
    let log = fs::read_to_string(cli.worker_log())?;
    assert!(log.contains("alert=relay_open "), "{log}");
    cli.relay.heal();
    let closed = cli.tidings().args(["relays", "close", "default"]).output().await?;
    let said = String::from_utf8(closed.stderr)?;
    assert!(closed.status.success() && said.contains("alert=relay_closed "), "{said}");
    Ok(())
}
