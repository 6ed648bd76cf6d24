//! `tidings emit --http`: a file of events through the api of a real gateway, with its crashes and its refusals.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::json;
use tidings_harness::{api::Api, cli_env::CliEnv, relay::Authority, wait::eventually};
use tidings_needs::needs;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    process::Command,
};

use super::gateway::{SCOPES, accounted, keys};

const MINUTE: Duration = Duration::from_mins(1);

/// Writes a file with events of these users in turn.
fn file(cli: &CliEnv, users: &[&str], events: usize) -> Result<PathBuf> {
    let mut lines = String::new();
    for (n, user) in users.iter().cycle().take(events).enumerate() {
        let event = json!({"tenant": "acme", "digest": "activity", "user": user, "event_id": format!("{user}-{n}"),
                           "category": "comment", "occurred_at": "2026-01-31T08:00:00Z",
                           "payload": {"title": format!("Event {n}")}});
        writeln!(lines, "{event}")?;
    }
    let path = cli.folder.path().join("events.ndjson");
    fs::write(&path, lines)?;
    Ok(path)
}

/// The command, which reaches no Temporal.
fn emit(cli: &CliEnv, url: &str, token: &str, file: &Path) -> Command {
    let mut command = cli.tidings();
    command.args(["emit", "--http", url, "--acknowledged"]).arg(cli.acknowledged()).arg(file);
    command.env("TIDINGS_TOKEN", token).env("TEMPORAL_ADDRESS", "127.0.0.1:1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code and everything that was said.
fn said(Output { status, stdout, stderr }: &Output) -> (Option<i32>, String) {
    (status.code(), [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat())
}

/// Takes TLS off connections and passes them to `upstream`. Returns the port.
async fn without_tls(authority: &Authority, upstream: u16) -> Result<u16> {
    let (acceptor, listener) = (authority.acceptor()?, TcpListener::bind("127.0.0.1:0").await?);
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let (mut stream, mut gateway) =
                    (acceptor.accept(stream).await?, TcpStream::connect(("127.0.0.1", upstream)).await?);
                copy_bidirectional(&mut stream, &mut gateway).await
            });
        }
    });
    Ok(port)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_emitted_over_tls_ends_in_one_mail() -> Result<()> {
    let mut cli = CliEnv::start("after 2s").await?;
    cli.import(&keys()).await?;
    cli.start_worker()?;
    let gateway = Api::start(&cli, &SCOPES).await?;
    let [trusted, foreign] = ["trusted.pem", "foreign.pem"].map(|name| cli.folder.path().join(name));
    let authority = Authority::new("localhost")?;
    authority.write(&trusted)?;
    Authority::new("localhost")?.write(&foreign)?;
    let port = without_tls(&authority, gateway.port.number).await?;
    let (url, file) = (format!("https://localhost:{port}"), file(&cli, &["ann"], 20)?);
    // A system that does not trust the certificate sends nothing.
    let output = emit(&cli, &url, &gateway.token, &file).env("SSL_CERT_FILE", &foreign).output().await?;
    let (code, text) = said(&output);
    ensure!(code == Some(1) && text.contains("cannot connect to the gateway at https://localhost"), "{text}");

    let output = emit(&cli, &url, &gateway.token, &file).env("SSL_CERT_FILE", trusted).output().await?;
    assert_eq!(said(&output), (Some(0), "events: 20 accepted, 0 rejected\n".to_owned()));
    accounted(&cli, &fs::read_to_string(cli.acknowledged())?, 20).await?;
    assert_eq!(cli.relay.count(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_killed_amid_a_file_loses_no_event() -> Result<()> {
    const EVENTS: usize = 12_000;
    let mut cli = CliEnv::start("after 2s").await?;
    cli.import(&keys()).await?;
    cli.start_worker()?;
    let mut gateway = Api::start(&cli, &SCOPES).await?;
    let file = file(&cli, &["ann", "bo", "cy", "di"], EVENTS)?;
    let url = format!("http://127.0.0.1:{}", gateway.port.number);
    let mut emitting = emit(&cli, &url, &gateway.token, &file).spawn()?;
    for acknowledged in [1, EVENTS / 4] {
        let enough = async || {
            let lines = fs::read_to_string(cli.acknowledged()).unwrap_or_default().lines().count();
            Ok((lines >= acknowledged).then_some(()))
        };
        eventually("some events are acknowledged", MINUTE, enough).await?;
        gateway.kill();
        ensure!(emitting.try_wait()?.is_none(), "everything was emitted before the kill");
        gateway.restart(&cli).await?;
    }
    let output = emitting.wait_with_output().await?;
    assert_eq!(said(&output), (Some(0), "events: 12,000 accepted, 0 rejected\n".to_owned()));
    accounted(&cli, &fs::read_to_string(cli.acknowledged())?, EVENTS as u64).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_the_right_is_refused_with_the_remedy() -> Result<()> {
    let cli = CliEnv::start("after 2s").await?;
    let gateway = Api::start(&cli, &SCOPES).await?;
    let (url, file) = (format!("http://127.0.0.1:{}", gateway.port.number), file(&cli, &["ann"], 3)?);
    let create = |tenant, scope| ["tokens", "create", "--tenant", tenant, "--scope", scope, "--by", "ann"];
    let reader = cli.run(&create("acme", "digests:read")).await?;
    let (code, text) = said(&emit(&cli, &url, &reader, &file).output().await?);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("Missing scope"), "{text}");
    assert!(text.contains("`tidings tokens create --scope events:write`"), "{text}");

    let revoked = cli.run(&create("acme", "events:write")).await?;
    cli.run(&["tokens", "revoke", &revoked[4..20], "--by", "ann"]).await?;
    let (code, text) = said(&emit(&cli, &url, &revoked, &file).output().await?);
    assert!(code == Some(2) && text.contains("Invalid token"), "{text}");
    assert!(!text.contains(&revoked[21..60]), "{text}");

    let foreign = cli.run(&create("zeta", "events:write")).await?;
    let (code, text) = said(&emit(&cli, &url, &foreign, &file).output().await?);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("tenant: is not the token's tenant") && text.contains("0 accepted, 3 rejected"), "{text}");
    Ok(())
}
