//! Access tokens of oidc-provider, as a service gets them by `client_credentials`.

use std::{env, fs, os::unix::fs::symlink, path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_harness::{http, port::Port, wait::eventually};
use tidings_needs::needs;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

use super::{Api, MINUTE};

const SERVER: &str = include_str!("../../../interop/issuer/server.mjs");
/// The api's name.
const AUDIENCE: &str = "https://tidings.acme.example";

/// The issuer, which is killed when it is dropped.
struct Issuer {
    _process: Child,
    folder: TempDir,
    port: Port,
}

impl Issuer {
    async fn start() -> Result<Self> {
        let (folder, port) = (TempDir::new()?, Port::take()?);
        let packages = env::var("TIDINGS_TEST_ISSUER").context("TIDINGS_TEST_ISSUER is not set")?;
        symlink(Path::new(&packages).join("node_modules"), folder.path().join("node_modules"))?;
        fs::write(folder.path().join("server.mjs"), SERVER)?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut node = Command::new(env::var("TIDINGS_TEST_NODE").unwrap_or_else(|_| "node".to_owned()));
        node.arg("server.mjs").arg(port.number.to_string()).current_dir(folder.path()).kill_on_drop(true);
        let process = node.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let issuer = Self { _process: process, folder, port };
        let listens = async || Ok(TcpStream::connect(("127.0.0.1", issuer.port.number)).await.is_ok().then_some(()));
        eventually("the issuer listens", MINUTE, listens).await.with_context(|| issuer.log())?;
        Ok(issuer)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The tables of `tidings.toml` that trust the issuer.
    fn trust(&self) -> String {
        format!("[gateway.oidc]\nissuer = \"http://127.0.0.1:{}\"\naudience = \"{AUDIENCE}\"\n", self.port.number)
    }

    /// A new access token for a resource. Without one it is opaque.
    async fn token(&self, resource: Option<&str>) -> Result<String> {
        let resource = resource.map(|resource| format!("&resource={resource}")).unwrap_or_default();
        let form = "grant_type=client_credentials&client_id=shop&client_secret=secret&scope=events:write";
        let head = "POST /token HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n";
        let (status, answer) = http::request(self.port.number, head, &format!("{form}{resource}")).await?;
        ensure!(status == 200, "{answer} {}", self.log());
        let answer: Value = serde_json::from_str(&answer)?;
        Ok(answer["access_token"].as_str().context("no token")?.to_owned())
    }
}

#[needs(temporal, node, issuer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_service_emits_with_a_token_of_the_issuer_for_this_api() -> Result<()> {
    let issuer = Issuer::start().await?;
    let api = Api::start_with("after 1d", &issuer.trust()).await?;
    api.emit(&issuer.token(Some(AUDIENCE)).await?, "bo", "e1").await?;

    let opaque = "configure the issuer to issue JWTs for this audience (see docs/http.md)";
    let other = "aud does not contain gateway.oidc.audience";
    for (resource, reason) in [(None, opaque), (Some("https://shop.acme.example"), other)] {
        let token = issuer.token(resource).await?;
        let (status, answer) = api.ask(&token, "POST", "/v1/events", &json!([])).await?;
        assert_eq!(status, 401, "{answer}");
        assert!(api.log().contains(reason), "{reason:?} is not in {}", api.log());
        assert!(!api.log().contains(&token), "the log has a token");
    }
    Ok(())
}
