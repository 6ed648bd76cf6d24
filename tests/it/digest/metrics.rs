//! The metrics that a worker exports to Prometheus.

use std::{fs, time::Duration};

use anyhow::Result;
use tidings_harness::{
    cli_env::CliEnv,
    env::eventually,
    port::Port,
    relay::{Act, At, Fault},
};
use tidings_needs::needs;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The answer to `GET /metrics` with its headers, or `None` while the port is closed.
async fn scraped(port: u16) -> Result<Option<String>> {
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)).await else { return Ok(None) };
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(Some(answer))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_counts_the_failed_digest_and_its_attempt() -> Result<()> {
    let mut cli = CliEnv::start("instant").await?;
    let port = Port::take()?;
    let file = cli.folder.path().join("tidings.toml");
    fs::write(&file, format!("metrics_listen = \"127.0.0.1:{}\"\n{}", port.number, fs::read_to_string(&file)?))?;
    fs::write(cli.folder.path().join("people.csv"), "tenant,user,address\nacme,ann,ann@example.test\n")?;
    cli.run(&["recipients", "import", "people.csv"]).await?;
    cli.relay.fault(Fault::new(At::Rcpt, Act::Reply("550 no".into())));
    cli.start_worker()?;
    cli.run(&["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"]).await?;

    let failed =
        async || Ok(scraped(port.number).await?.filter(|told| told.contains("\ntidings_digests_failed_total 1\n")));
    let told = eventually("the failure is counted", Duration::from_mins(1), failed).await?;
    assert!(told.contains("content-type: application/openmetrics-text; version=1.0.0"), "{told}");
    for line in [
        "tidings_attempts_total{relay=\"default\",class=\"failed\"} 1",
        "tidings_messages_failed_total 0",
        "tidings_relay_open{relay=\"default\"} 0",
    ] {
        assert!(told.contains(&format!("\n{line}\n")), "{line} is not in\n{told}");
    }
    assert!(told.ends_with("# EOF\n") && !told.contains("acme") && !told.contains("ann"), "{told}");
    Ok(())
}
