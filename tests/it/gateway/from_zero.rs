//! The programs of docs/from-zero.md, each against a gateway whose first answer is 503.

use std::{env, fs, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tidings_harness::{api::Api, cli_env::CliEnv, env::eventually, python::python};
use tidings_needs::needs;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinHandle,
};

use crate::recovery::gateway::SCOPES;

const PAGE: &str = include_str!("../../../docs/from-zero.md");
const MINUTE: Duration = Duration::from_mins(1);
/// An answer after which a program must try again.
const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The last block of the page in this language. The first block of `sh` has the variables.
fn block(language: &str) -> Result<&'static str> {
    let last = PAGE.rsplit(&format!("```{language}\n")).next().filter(|rest| rest.len() < PAGE.len());
    last.and_then(|rest| rest.split("```").next())
        .with_context(|| format!("no block of {language} in docs/from-zero.md"))
}

/// Refuses the first connection's request, and hands on all others.
async fn busy_at_first(gateway: SocketAddr) -> Result<(SocketAddr, JoinHandle<Result<()>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let handing = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await?;
        let mut request = [0; 4096];
        let _ = first.read(&mut request).await?;
        first.write_all(BUSY).await?;
        first.shutdown().await?;
        loop {
            let (mut client, _) = listener.accept().await?;
            tokio::spawn(async move {
                let mut server = TcpStream::connect(gateway).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    Ok((address, handing))
}

/// The number of events that wait for a key.
async fn pending(cli: &CliEnv, user: &str) -> Result<u64> {
    let (_, status) = cli.ask(&["status", &format!("acme/activity/{user}"), "--json"]).await?;
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    // Events of an open window are counted apart until they are compared with the ledger.
    Ok(["pending", "uncompared"].iter().filter_map(|name| status[name].as_u64()).sum())
}

/// Runs the block of a language from a file, and checks what the block prints and what is pending then.
async fn run(language: &str, file: &str, program: &[&str]) -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    fs::write(cli.folder.path().join("people.csv"), "tenant,user,address\nacme,ann,ann@example.test\n")?;
    cli.run(&["recipients", "import", "people.csv"]).await?;
    cli.start_worker()?;
    let gateway = Api::start(&cli, &SCOPES).await?;
    // The window is open before the program asks for it, however slow this machine is.
    let earlier = r#"{"event_id":"earlier","tenant":"acme","digest":"activity","user":"ann","category":"comment","occurred_at":"2026-01-31T08:00:00Z"}"#;
    fs::write(cli.folder.path().join("earlier.ndjson"), earlier)?;
    cli.run(&["emit", "earlier.ndjson"]).await?;
    let waits = async |events| Ok((pending(&cli, "ann").await? == events).then_some(()));
    eventually("the earlier event is pending", MINUTE, async || waits(1).await).await?;

    let (address, handing) = busy_at_first(SocketAddr::from(([127, 0, 0, 1], gateway.port.number))).await?;
    fs::write(cli.folder.path().join(file), block(language)?)?;
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(file).current_dir(cli.folder.path());
    command.env("TIDINGS_URL", format!("http://{address}")).env("TIDINGS_TOKEN", &gateway.token);
    // Where Go keeps what it built.
    command.env("GOCACHE", cli.folder.path().join("go")).kill_on_drop(true);
    let output = command.output().await?;
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{language}: {}: {said}{printed}", output.status);
    ensure!(printed.contains("accepted"), "{language}: {printed}");
    ensure!(printed.contains("\"pending\""), "{language}: {printed}");
    ensure!(!handing.is_finished(), "{language}");
    handing.abort();
    eventually("the program's event is pending, too", MINUTE, async || waits(2).await).await
}

/// The program that a variable names, or else the one on the PATH.
fn program(variable: &str, name: &str) -> String {
    env::var(variable).unwrap_or_else(|_| name.to_owned())
}

#[needs(temporal, python)]
#[tokio::test(flavor = "multi_thread")]
async fn the_block_in_python_posts_again_and_sees_what_is_pending() -> Result<()> {
    let python = python()?.into_string().ok().context("a path in UTF-8")?;
    run("python", "zero.py", &[&python]).await
}

#[needs(temporal, node)]
#[tokio::test(flavor = "multi_thread")]
async fn the_block_in_typescript_posts_again_and_sees_what_is_pending() -> Result<()> {
    run("js", "zero.mjs", &[&program("TIDINGS_TEST_NODE", "node")]).await
}

#[needs(temporal, go)]
#[tokio::test(flavor = "multi_thread")]
async fn the_block_in_go_posts_again_and_sees_what_is_pending() -> Result<()> {
    run("go", "zero.go", &[&program("TIDINGS_TEST_GO", "go"), "run"]).await
}

#[needs(temporal, curl)]
#[tokio::test(flavor = "multi_thread")]
async fn the_block_with_curl_posts_again_and_sees_what_is_pending() -> Result<()> {
    run("sh", "zero.sh", &["sh"]).await
}
