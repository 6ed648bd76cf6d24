//! The binary behind a real nginx and a real Caddy, which are configured as docs/gateway.md says.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_harness::{
    cli_env::{binary, command},
    env::{sqlite, sqlite_url},
    port::Port,
    process::signal,
    python::python,
    reverse_proxy::{HOST, Program, ReverseProxy},
};
use tidings_model::{Key, UnsubscribeLink, link_keys::LinkKeys};
use tidings_needs::needs;
use uuid::Uuid;

const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const PAGE: &str = include_str!("../../../docs/gateway.md");
const FORM: &str = "application/x-www-form-urlencoded";
const ONE_CLICK: &str = "List-Unsubscribe=One-Click";
/// Two clients on this machine. The documented proxy has a third address.
const CLIENTS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// A running `tidings gateway`, which is killed when it is dropped.
struct Gateway {
    child: Child,
    address: SocketAddr,
    _port: Port,
    folder: TempDir,
}

impl Gateway {
    /// Starts a gateway that trusts proxies at 127.0.0.1. No Temporal answers it.
    async fn start() -> Result<Self> {
        let (folder, port) = (TempDir::new()?, Port::take()?);
        let address = SocketAddr::from(([127, 0, 0, 1], port.number));
        let config = format!(
            "database_url = \"{}\"\n[mail]\nfrom = \"Tidings <digest@acme.example>\"\n[gateway]\n\
             public_url = \"https://{HOST}\"\nlisten = \"{address}\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
             [relay.own]\nurl = \"smtp://127.0.0.1:1\"\nwebhook_secret_env = \"OWN_WEBHOOK\"\n\
             [stream.bulk]\nrelays = [\"own\"]\n[stream.transactional]\nrelays = [\"own\"]\n",
            sqlite_url(folder.path())
        );
        fs::write(folder.path().join("tidings.toml"), config)?;
        // `tidings migrate` also needs Temporal.
        sqlite(folder.path()).await?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut command = command(&binary()?, folder.path(), "127.0.0.1:1").into_std();
        command.env("TIDINGS_LINK_KEYS", KEYS).env("OWN_WEBHOOK", "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==");
        let child = command.arg("gateway").stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut gateway = Self { child, address, _port: port, folder };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            let log = fs::read_to_string(gateway.folder.path().join("log"))?;
            ensure!(gateway.child.try_wait()?.is_none() && Instant::now() < until, "no start: {log}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(gateway)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Deserialize)]
struct Answer {
    status: u16,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
}

/// Sends requests through a proxy, one after the other.
fn through(proxy: &ReverseProxy, requests: &[Value]) -> Result<Vec<Answer>> {
    through_and(proxy, requests, || Ok(()))
}

/// Sends requests through a proxy, one after the other, and acts once the first is answered.
fn through_and(proxy: &ReverseProxy, requests: &[Value], answered: impl FnOnce() -> Result<()>) -> Result<Vec<Answer>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/https.py");
    let mut child = Command::new(python()?)
        .arg(script)
        .arg(&proxy.authority)
        .args([HOST, &proxy.port.number.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    for request in requests {
        // A script that failed says why below.
        let _ = writeln!(input, "{request}");
    }
    drop(input);
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let first = lines.next().transpose()?;
    if first.is_some() {
        answered()?;
    }
    let lines = first.into_iter().map(Ok).chain(lines).collect::<std::io::Result<Vec<_>>>()?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "https.py: {said}\n{}", proxy.log());
    let answers: Vec<Answer> = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
    ensure!(answers.len() == requests.len());
    Ok(answers)
}

fn post(path: &str, kind: &str, body: &str) -> Value {
    json!({"from": CLIENTS[0], "method": "POST", "path": path, "headers": {"Content-Type": kind}, "body": body})
}

fn unsubscribe_path() -> Result<String> {
    let key = Key::new("acme".into(), "activity".into(), "ann".into())?;
    let link = UnsubscribeLink::Unsubscribe { key, message: Uuid::from_u128(7), generation: 0 };
    Ok(format!("/u/{}", link.token(&KEYS.parse::<LinkKeys>()?).context("no key")?))
}

/// Requests that reach the gateway through a proxy as they would without one.
fn serves(proxy: &ReverseProxy) -> Result<()> {
    let path = unsubscribe_path()?;
    let multipart = "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n";
    let requests = [
        json!({"from": CLIENTS[0], "method": "GET", "path": path}),
        json!({"from": CLIENTS[0], "method": "HEAD", "path": path}),
        post(&path, FORM, ONE_CLICK),
        post(&path, "multipart/form-data; boundary=b", multipart),
        json!({"from": CLIENTS[0], "method": "POST", "path": path, "headers": {"Content-Type": FORM},
               "chunks": ["List-Unsubscribe", "=One-Click"]}),
        post(&path, FORM, "List-Unsubscribe=No"),
        json!({"from": CLIENTS[0], "method": "GET", "path": "/u/wrong"}),
        // The largest webhook that the gateway takes. It is not signed.
        post("/webhooks/own", "application/json", &"x".repeat(2 * 1024 * 1024)),
        post("/webhooks/own", "application/json", &"x".repeat(2 * 1024 * 1024 + 1)),
    ];
    let answers = through(proxy, &requests)?;
    let status: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let (too_large, others) = status.split_last().context("no answer")?;
    assert_eq!(others, [200, 200, 200, 200, 200, 400, 404, 401], "{answers:#?}\n{}", proxy.log());
    // The gateway answers before it has read the body, and Caddy does not read the answer before it has sent the body.
    assert!([413, 502].contains(too_large), "{too_large}\n{}", proxy.log());
    for answer in &answers[..5] {
        assert!(!answer.headers.contains_key("location") && !answer.headers.contains_key("set-cookie"), "{answer:?}");
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    }
    assert!(answers[0].body.contains("<form"), "{}", answers[0].body);
    assert_eq!((answers[1].body.as_str(), answers[6].body.as_str()), ("", ""));
    Ok(())
}

/// The address in the request that a proxy passes on is the client's, whatever the client claims to be.
fn names_the_client(program: Program) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let proxy = ReverseProxy::start(program, PAGE, listener.local_addr()?)?;
    let upstream = thread::spawn(move || -> Result<String> {
        let (mut stream, _) = listener.accept()?;
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        Ok(String::from_utf8(head)?)
    });
    let forged = json!({"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"});
    through(&proxy, &[json!({"from": CLIENTS[1], "method": "GET", "path": "/", "headers": forged})])?;
    let head = upstream.join().ok().context("a panic")??;
    let named =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("x-forwarded-for: ").map(str::to_owned));
    let named = named.with_context(|| head.clone())?;
    assert_eq!(named.rsplit(", ").next(), Some(CLIENTS[1]), "{head}");
    assert!(head.to_ascii_lowercase().contains(&format!("\r\nhost: {HOST}")), "{head}");
    Ok(())
}

/// Clients that ask all the time while the gateway ends get its answer or the proxy's 502, and nothing hangs.
async fn ends_behind(program: Program) -> Result<()> {
    let mut gateway = Gateway::start().await?;
    let proxy = ReverseProxy::start(program, PAGE, gateway.address)?;
    let click = post(&unsubscribe_path()?, FORM, ONE_CLICK);
    let asked = through_and(&proxy, &vec![click; 200], || signal(gateway.child.id(), "TERM"))?;
    let ended = gateway.child.wait()?;
    assert_eq!(ended.code(), Some(0));
    let answered = asked.iter().take_while(|answer| answer.status == 200).count();
    assert!(answered > 0 && asked[answered..].iter().all(|answer| answer.status == 502), "{asked:?}");
    Ok(())
}

async fn works_behind(program: Program) -> Result<()> {
    let gateway = Gateway::start().await?;
    serves(&ReverseProxy::start(program, PAGE, gateway.address)?)?;
    drop(gateway);
    names_the_client(program)?;
    ends_behind(program).await
}

#[needs(python, nginx)]
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_nginx_serves_the_gateway() -> Result<()> {
    works_behind(Program::Nginx).await
}

#[needs(python, caddy)]
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_caddy_serves_the_gateway() -> Result<()> {
    works_behind(Program::Caddy).await
}
