//! A gateway: as a process, or its routes in this process.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    path::Path,
    process::Child,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use axum::Router;
use temporalio_client::Client;
use tidings_gateway::{
    AdmissionLimits, GatewayState,
    fetch::HttpFetcher,
    recorder::TrackingRecorder,
    routes::router,
    webhooks::{WebhookContext, ses::CertificateCache},
};
use tidings_mail::words::LocalizedWords;
use tidings_model::settings::Settings;
use tidings_store::Store;
use tokio::{net::TcpStream, process::Command, sync::watch};

use crate::{port::Port, wait::eventually};

/// `tidings gateway`. The process is killed (SIGKILL) when this is dropped.
pub struct Gateway(Child);

impl Gateway {
    /// Starts the process by the command `tidings` of a folder, and waits until it listens at this port. Its log is in the folder.
    ///
    /// # Errors
    /// When the process ends by itself or does not listen within a minute. The error contains the log.
    pub async fn start(tidings: Command, folder: &Path, port: &Port) -> Result<Self> {
        let path = folder.join("gateway.log");
        let log = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut command = tidings.into_std();
        let mut gateway = Self(command.arg("gateway").stdout(log.try_clone()?).stderr(log).spawn()?);
        eventually("the gateway listens", Duration::from_mins(1), async || {
            if let Some(status) = gateway.0.try_wait()? {
                bail!("the gateway ended with {status}: {}", fs::read_to_string(&path)?);
            }
            Ok(TcpStream::connect(("127.0.0.1", port.number)).await.ok())
        })
        .await?;
        Ok(gateway)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The public routes over a store, without webhooks. `None`: Temporal has not answered yet.
///
/// # Errors
/// When the words of the pages cannot be read.
pub fn public_routes(store: Arc<dyn Store>, settings: Settings, temporal: Option<Client>) -> Result<Router> {
    let settings = Arc::new(settings);
    let recorder = TrackingRecorder::start(store.clone(), settings.clone()).0;
    let words = Arc::new(LocalizedWords::new(None)?);
    let state =
        GatewayState { store, directory: None, settings, words, recorder, temporal: watch::channel(temporal).1 };
    let webhooks = WebhookContext {
        state: state.clone(),
        hooks: BTreeMap::new(),
        certificates: CertificateCache::new(HttpFetcher::new()),
    };
    Ok(router(state, webhooks, AdmissionLimits::default()))
}

/// The body of a form with these fields.
#[must_use]
pub fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// The address in the footer of an email that leads to a page.
///
/// # Errors
/// The email has no such link.
pub fn footer(html: &str, address: &str, page: &str) -> Result<String> {
    let start = format!("href=\"http://{address}/{page}/");
    let rest = html.split(&start).nth(1).with_context(|| format!("no /{page}/ in {html}"))?;
    let token = rest.split('"').next().unwrap_or_default();
    Ok(format!("http://{address}/{page}/{token}"))
}

/// The hidden field by which the page of preferences undoes a change, if the page has one.
#[must_use]
pub fn undo_of(page: &str) -> Option<String> {
    let value = page.split("name=\"undo\" value=\"").nth(1)?.split('"').next()?;
    Some(value.replace("&quot;", "\"").replace("&#34;", "\"").replace("&amp;", "&"))
}
