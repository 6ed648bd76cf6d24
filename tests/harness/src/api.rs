//! A gateway with an api, as a process.

use std::{fs, time::Duration};

use anyhow::Result;
use tokio::time::timeout;

use crate::{cli_env::CliEnv, gateway::Gateway, http, port::Port};

const MINUTE: Duration = Duration::from_mins(1);

/// The process, which is killed when it is dropped.
pub struct Api {
    process: Option<Gateway>,
    pub port: Port,
    _public: Port,
    /// A token of the tenant `acme`.
    pub token: String,
}

impl Api {
    /// Configures the gateway, makes a token of `acme` with these scopes and starts the process.
    ///
    /// # Errors
    /// When a command fails, or the gateway does not answer.
    pub async fn start(cli: &CliEnv, scopes: &[&str]) -> Result<Self> {
        let (public, port) = (Port::take()?, Port::take()?);
        let folder = cli.folder.path();
        let config = fs::read_to_string(folder.join("tidings.toml"))?;
        let config = format!(
            "link_keys_file = \"keys\"\n{config}[gateway]\npublic_url = \"http://localhost:{0}\"\n\
             listen = \"127.0.0.1:{0}\"\napi_listen = \"127.0.0.1:{1}\"\n",
            public.number, port.number
        );
        fs::write(folder.join("tidings.toml"), config)?;
        fs::write(folder.join("keys"), "A".repeat(43))?;
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        let create: Vec<_> = ["tokens", "create", "--tenant", "acme"].into_iter().chain(scopes).collect();
        let token = cli.run(&create).await?.trim().to_owned();
        let mut api = Self { process: None, port, _public: public, token };
        api.restart(cli).await?;
        Ok(api)
    }

    /// Starts the process, and waits until it listens.
    ///
    /// # Errors
    /// When the gateway does not answer.
    pub async fn restart(&mut self, cli: &CliEnv) -> Result<()> {
        self.process = Some(Gateway::start(cli.tidings(), cli.folder.path(), &self.port).await?);
        Ok(())
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// When no answer comes, or it is not as the document says.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        self.request("GET", path, "", "").await
    }

    /// Sends a request with JSON. `headers` has further headers, each with its end of line.
    ///
    /// # Errors
    /// When no answer comes within a minute, or it is not as the document says.
    pub async fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Result<(u16, String)> {
        self.send(method, path, &format!("Content-Type: application/json\r\n{headers}"), body).await
    }

    /// Sends a request with a body of the type that `headers` names.
    ///
    /// # Errors
    /// When no answer comes within a minute, or it is not as the document says.
    pub async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Result<(u16, String)> {
        let head = format!("{method} {path} HTTP/1.1\r\nAuthorization: Bearer {}\r\n{headers}", self.token);
        timeout(MINUTE, http::api_request(self.port.number, &head, body)).await?
    }

    /// Kills the process (SIGKILL).
    pub fn kill(&mut self) {
        drop(self.process.take());
    }
}
