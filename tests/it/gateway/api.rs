//! The api of the binary, with a worker, a Temporal server and a relay.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tidings_harness::{cli_env::CliEnv, http, port::Port, wait::eventually};
use tokio::{net::TcpStream, process::Child};

mod bodies;
mod directory;
mod issuer;
mod messages;
mod oidc;
mod recipients;

const MINUTE: Duration = Duration::from_mins(1);

/// A running Tidings with `tidings gateway`, which is killed when it is dropped.
struct Api {
    _gateway: Child,
    cli: CliEnv,
    port: Port,
    /// The port of recipients.
    public: Port,
}

impl Api {
    /// Starts everything. Windows of `activity` follow `cadence`.
    async fn start(cadence: &str) -> Result<Self> {
        Self::start_with(cadence, "").await
    }

    /// Starts everything, with these tables at the end of `tidings.toml`.
    async fn start_with(cadence: &str, tables: &str) -> Result<Self> {
        let mut cli = CliEnv::start(cadence).await?;
        let (port, public) = (Port::take()?, Port::take()?);
        let file = cli.folder.path().join("tidings.toml");
        let text = format!(
            "link_keys_file = \"keys\"\n{}[gateway]\npublic_url = \"http://localhost:{}\"\n\
             listen = \"127.0.0.1:{}\"\napi_listen = \"127.0.0.1:{}\"\n{tables}",
            fs::read_to_string(&file)?,
            public.number,
            public.number,
            port.number
        );
        fs::write(file, text)?;
        fs::write(cli.folder.path().join("keys"), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")?;
        cli.start_worker()?;
        let log = fs::File::create(cli.folder.path().join("gateway.log"))?;
        let mut command = cli.tidings();
        let gateway = command.arg("gateway").stdout(Stdio::null()).stderr(log).spawn()?;
        let api = Self { _gateway: gateway, cli, port, public };
        let ready = async || {
            if TcpStream::connect(("127.0.0.1", api.port.number)).await.is_err() {
                return Ok(None);
            }
            let (status, _) = http::request(api.port.number, "GET /readyz HTTP/1.1\r\n", "").await?;
            Ok((status == 200).then_some(()))
        };
        eventually("the gateway is ready", MINUTE, ready).await.with_context(|| api.log())?;
        Ok(api)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.cli.folder.path().join("gateway.log")).unwrap_or_default()
    }

    /// A new token of a tenant.
    async fn token(&self, tenant: &str, scopes: &[&str]) -> Result<String> {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        let arguments: Vec<_> =
            ["tokens", "create", "--by", "carol", "--tenant", tenant].into_iter().chain(scopes).collect();
        Ok(self.cli.run(&arguments).await?.trim().to_owned())
    }

    /// Sends a request, and returns the status and the body of the answer.
    async fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n");
        let (status, answer) = http::api_request(self.port.number, &head, &body).await?;
        Ok((status, serde_json::from_str(&answer).with_context(|| format!("{answer} {}", self.log()))?))
    }

    /// Emits an event for a user, over HTTP.
    async fn emit(&self, token: &str, user: &str, id: &str) -> Result<()> {
        let event = json!({"event_id": id, "digest": "activity", "user": user, "category": "comment",
                           "occurred_at": jiff::Timestamp::now(), "payload": {"title": "Bob replied"}});
        let (status, answer) = self.ask(token, "POST", "/v1/events", &event).await?;
        anyhow::ensure!(status == 202, "{answer}");
        Ok(())
    }

    async fn until_mails(&self, number: usize) -> Result<()> {
        eventually("mails", MINUTE, async || Ok((self.cli.relay.count() == number).then_some(()))).await
    }
}
