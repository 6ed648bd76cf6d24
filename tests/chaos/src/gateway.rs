//! The gateway of a run: its process, and what producers, recipients and providers send to it.

use std::{fs::OpenOptions, process::Child, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::json;
use tidings_gateway::webhooks::SigningSecret;
use tidings_harness::{http, port::Port, process::signal, relay::Mail};
use tokio::time::{Instant, sleep, timeout};

use super::{
    files::Files,
    settings::{Ports, SECRET},
    setup::Setup,
    tidings::{Build, Tidings, ended_as_asked},
};

/// Time until a request comes again.
const AGAIN: Duration = Duration::from_secs(2);
/// Time limit for an answer. The gateway's own limit is shorter.
const PATIENCE: Duration = Duration::from_mins(1);

/// The process of the gateway, which is killed when it is dropped.
pub struct Gateway {
    public: Port,
    api: Port,
    tidings: Tidings,
    setup: Setup,
    child: Option<Child>,
    started_at: Instant,
    wanted: bool,
}

/// Sends requests to the gateway.
#[derive(Clone)]
pub struct Requests {
    public: u16,
    api: u16,
    token: Arc<str>,
}

impl Gateway {
    /// A gateway that does not run yet.
    ///
    /// # Errors
    /// When no port is free.
    pub fn new(tidings: Tidings) -> Result<Self> {
        let (public, api) = (Port::take()?, Port::take()?);
        Ok(Self {
            public,
            api,
            tidings,
            setup: Setup::default(),
            child: None,
            started_at: Instant::now(),
            wanted: false,
        })
    }

    /// The ports of both listeners.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        Ports { public: self.public.number, api: self.api.number }
    }

    /// Makes a token for producers of all tenants.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn requests(&self) -> Result<Requests> {
        let words = ["tokens", "create", "--tenant", "*", "--scope", "events:write"].map(str::to_owned);
        let output = self.tidings.command(&words).output().await?;
        ensure!(output.status.success(), "tidings tokens create: {output:?}");
        let token = String::from_utf8(output.stdout)?;
        Ok(Requests { public: self.public.number, api: self.api.number, token: token.trim().into() })
    }

    /// Starts the process.
    ///
    /// # Errors
    /// When the binary does not start.
    pub fn start(&mut self) -> Result<()> {
        let path = self.tidings.folder().join("gateway.log");
        let log = OpenOptions::new().create(true).append(true).open(path)?;
        let mut command = self.tidings.process(Build::New, &["gateway".to_owned()], self.setup)?;
        self.child = Some(command.stdout(log.try_clone()?).stderr(log).spawn()?);
        self.started_at = Instant::now();
        self.wanted = true;
        Ok(())
    }

    /// Stops the process (SIGTERM) and starts it with this setup.
    ///
    /// # Errors
    /// When it does not end in time, or does not start.
    pub async fn change(&mut self, setup: Setup, within: Duration) -> Result<()> {
        if self.child.is_some() {
            self.stop(within).await?;
        }
        self.setup = setup;
        self.start()
    }

    /// Kills the process (SIGKILL). Answers `true` if it was alive.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> Result<bool> {
        self.wanted = false;
        let Some(mut child) = self.child.take() else { return Ok(false) };
        let alive = child.try_wait()?.is_none();
        child.kill()?;
        child.wait()?;
        Ok(alive)
    }

    /// Signals the process, if there is one.
    pub fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            // It may have ended by itself.
            let _ = signal(child.id(), name);
        }
    }

    /// Starts the process again if it ended by itself. Answers with its status then.
    ///
    /// # Errors
    /// When it does not start.
    pub fn supervise(&mut self) -> Result<Option<String>> {
        let Self { child: Some(child), wanted: true, .. } = self else { return Ok(None) };
        let Some(status) = child.try_wait()? else { return Ok(None) };
        self.start()?;
        Ok(Some(status.to_string()))
    }

    /// Stops the process with SIGTERM.
    ///
    /// # Errors
    /// When it does not [end as asked](ended_as_asked) in time.
    pub async fn stop(&mut self, within: Duration) -> Result<()> {
        self.wanted = false;
        self.signal("TERM");
        let child = self.child.as_mut().context("the gateway is missing")?;
        let ended = async {
            loop {
                if let Some(status) = child.try_wait()? {
                    return anyhow::Ok(status);
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let status = timeout(within, ended).await.context("the gateway does not stop in time after SIGTERM")??;
        ensure!(ended_as_asked(status, self.started_at), "the gateway stopped with {status}");
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.kill();
    }
}

impl Requests {
    /// Posts lines of events. Answers `false` if the request must come again, because of a fault.
    ///
    /// # Errors
    /// When the gateway refuses an event.
    pub async fn emit(&self, lines: &str) -> Result<bool> {
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nAuthorization: Bearer {}\r\n",
            self.token
        );
        let Some((status, body)) = sent(self.api, &head, lines).await else { return Ok(false) };
        ensure!(status == 202, "POST /v1/events: {status}: {body}");
        Ok(true)
    }

    /// Unsubscribes by one click from the digest of this email, repeatedly until it is answered, and notes the click for the checker.
    /// Answers `false` if the email has no link.
    ///
    /// # Errors
    /// When the gateway refuses the click.
    pub async fn click(&self, mail: &Mail, files: &Files) -> Result<bool> {
        let (text, start) =
            (String::from_utf8_lossy(&mail.bytes()).into_owned(), format!("http://localhost:{}", self.public));
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let Some(path) = head.split(['<', '>']).find_map(|uri| uri.strip_prefix(&start)) else { return Ok(false) };
        let head = format!("POST {path} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n");
        self.until_answered(&head, "List-Unsubscribe=One-Click").await?;
        let answered_at = Timestamp::now().as_millisecond();
        let clicked = json!({"id": mail.header("X-Tidings-Message")?, "answered_at": answered_at});
        files.append("clicked.ndjson", &clicked)?;
        Ok(true)
    }

    /// Reports twice that a provider delivered this email and that it was opened, in the wrong order, repeatedly until each report is
    /// answered, and notes the reports for the checker.
    ///
    /// # Errors
    /// When the gateway refuses a report.
    pub async fn report(&self, mail: &Mail, relay: &str, number: u32, files: &Files) -> Result<bool> {
        let message = mail.header("X-Tidings-Message")?;
        for (kind, times) in [("opened", 2), ("delivered", 2)] {
            let event_id = format!("{number}-{kind}");
            // Another act may report about the same email, and equal reports of one time are one event, whatever their ids.
            let occurred_at = Timestamp::now();
            let event = json!({"kind": kind, "message": message, "event_id": event_id, "occurred_at": occurred_at});
            for _ in 0..times {
                let (body, now) = (event.to_string(), Timestamp::now().as_second());
                let secret = SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?;
                let signature = secret.sign(&event_id, now, body.as_bytes());
                let head = format!(
                    "POST /webhooks/{relay} HTTP/1.1\r\nwebhook-id: {event_id}\r\nwebhook-timestamp: {now}\r\n\
                     webhook-signature: {signature}\r\n"
                );
                // A provider repeats what a gateway refuses whose file has another name for the relay.
                while !self.is_taken(&head, &body).await? {
                    sleep(AGAIN).await;
                }
            }
            files.append("reported.ndjson", &json!({"id": message, "event_id": event_id}))?;
        }
        Ok(true)
    }

    /// Answers `false` if the report must come again.
    async fn is_taken(&self, head: &str, body: &str) -> Result<bool> {
        match sent(self.public, head, body).await {
            Some((200, _)) => Ok(true),
            Some((404, _)) | None => Ok(false),
            Some((status, said)) => bail!("{}: {status}: {said}", head.lines().next().unwrap_or_default()),
        }
    }

    async fn until_answered(&self, head: &str, body: &str) -> Result<()> {
        loop {
            match sent(self.public, head, body).await {
                Some((200, _)) => return Ok(()),
                Some((status, said)) => bail!("{}: {status}: {said}", head.lines().next().unwrap_or_default()),
                None => sleep(AGAIN).await,
            }
        }
    }
}

/// The status and the body of an answer. `None`: the request must come again, because of a fault.
async fn sent(port: u16, head: &str, body: &str) -> Option<(u16, String)> {
    let answer = timeout(PATIENCE, http::request(port, head, body)).await.ok()?.ok()?;
    (answer.0 != 503).then_some(answer)
}
