//! The programs of docs/from-zero.md, each against a gateway whose first answer is 503.

use std::{env, fs, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tidings_harness::{api::Api, cli_env::CliEnv, python::python, wait::eventually};
use tidings_needs::needs;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinHandle,
};

const PAGE: &str = include_str!("../../../docs/from-zero.md");
const MINUTE: Duration = Duration::from_mins(1);
const SCOPES: [&str; 3] = ["events:write", "digests:read", "messages:write"];
/// An answer after which a program must try again.
const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The last two blocks of the page in this language: the event, and the message. The first block of `sh` has the variables.
fn blocks(language: &str) -> Result<(&'static str, &'static str)> {
    let fence = format!("```{language}\n");
    let blocks: Vec<_> = PAGE.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [.., event, message] = blocks[..] else { bail!("no two blocks of {language} in docs/from-zero.md") };
    Ok((event, message))
}

/// The programs of a language, as the page says to put them together.
fn programs(language: &str) -> Result<Vec<String>> {
    let (event, message) = blocks(language)?;
    Ok(match event.split_once("func main()") {
        Some((call, _)) => vec![event.to_owned(), format!("{call}{message}")],
        None => vec![format!("{event}{message}")],
    })
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

/// Runs the programs of a language, and checks what they print, what is pending then, and which message arrives.
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

    let mut printed = String::new();
    for source in programs(language)? {
        let (address, handing) = busy_at_first(SocketAddr::from(([127, 0, 0, 1], gateway.port.number))).await?;
        fs::write(cli.folder.path().join(file), source)?;
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(file).current_dir(cli.folder.path());
        command.env("TIDINGS_URL", format!("http://{address}")).env("TIDINGS_TOKEN", &gateway.token);
        // Where Go keeps what it built.
        command.env("GOCACHE", cli.folder.path().join("go")).kill_on_drop(true);
        let output = command.output().await?;
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{language}: {}: {said}{out}", output.status);
        ensure!(!handing.is_finished(), "{language}");
        handing.abort();
        printed += &out;
    }
    for words in ["accepted", "\"pending\"", "/v1/messages/order-812"] {
        ensure!(printed.contains(words), "{language}: no {words} in {printed}");
    }
    eventually("the program's event is pending, too", MINUTE, async || waits(2).await).await?;
    let arrived = async || Ok((cli.relay.count() > 0).then_some(()));
    eventually("the message arrives", MINUTE, arrived).await?;
    let mails = cli.relay.mails();
    let [mail] = &mails[..] else { bail!("{language}: {} emails", mails.len()) };
    ensure!(mail.to == ["ann@example.test"], "{language}: {:?}", mail.to);
    let text = String::from_utf8(mail.bytes())?;
    ensure!(text.contains("Subject: Order 812") && text.contains("We have your order."), "{language}: {text}");
    Ok(())
}

/// The program that a variable names, or else the one on the PATH.
fn program(variable: &str, name: &str) -> String {
    env::var(variable).unwrap_or_else(|_| name.to_owned())
}

#[needs(temporal, python)]
#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_in_python_post_again_and_their_message_arrives() -> Result<()> {
    let python = python()?.into_string().ok().context("a path in UTF-8")?;
    run("python", "zero.py", &[&python]).await
}

#[needs(temporal, node)]
#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_in_typescript_post_again_and_their_message_arrives() -> Result<()> {
    run("js", "zero.mjs", &[&program("TIDINGS_TEST_NODE", "node")]).await
}

#[needs(temporal, go)]
#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_in_go_post_again_and_their_message_arrives() -> Result<()> {
    run("go", "zero.go", &[&program("TIDINGS_TEST_GO", "go"), "run"]).await
}

#[needs(temporal, curl)]
#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_with_curl_post_again_and_their_message_arrives() -> Result<()> {
    run("sh", "zero.sh", &["sh"]).await
}
