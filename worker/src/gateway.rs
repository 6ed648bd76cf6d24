//! Run loop of the gateway.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context as _;
use temporalio_client::Client;
use tidings_gateway::{
    AdmissionLimits, GatewayState,
    api::{self, ApiState, LEAST_BODY_BYTES, OidcIssuer, RenderContext},
    fetch::HttpFetcher,
    inbox::{EventInbox, InboxForwarder},
    jobs::JobRunner,
    metrics,
    recorder::TrackingRecorder,
    routes,
    server::{self, ConnectionLimits},
    webhooks::{WebhookContext, ses::CertificateCache},
};
use tidings_mail::{render::TemplateRenderer, words::LocalizedWords};
use tidings_model::{
    process::ProcessRole,
    settings::{Settings, UnknownRecipients},
    zone_data,
};
use tidings_services::{installation::ClaimRefusal, processes::ProcessPresence};
use tidings_store::Store;
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Config, installation,
    limits::{self, OWN_DESCRIPTORS},
    names, storage,
    worker::{BackgroundTask, METRICS_CONNECTIONS, compare_zone_data, connect_with_retry, listen_for_metrics},
};

/// Shutdown grace for opens and clicks that have not been recorded yet.
const RECORDING: Duration = Duration::from_secs(5);
const BODY_PART: u64 = 5;
/// Minimum per listener, even if there are too few file descriptors.
const FEW_CONNECTIONS: usize = 16;

/// The two listeners share no route (rule 38).
pub(crate) struct GatewayListeners {
    pub public: TcpListener,
    pub api: Option<TcpListener>,
}

impl GatewayListeners {
    /// Binds the configured addresses.
    ///
    /// # Errors
    /// An address is taken. The error names its key.
    pub async fn bind(config: &Config) -> anyhow::Result<Self> {
        let public = bind_listener("gateway.listen", config.gateway.listen).await?;
        let api = match config.gateway.api_listen {
            Some(address) => Some(bind_listener("gateway.api_listen", address).await?),
            None => None,
        };
        Ok(Self { public, api })
    }
}

async fn bind_listener(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{key} = \"{address}\""))
}

/// Serves until `shutdown` is cancelled. Requests in progress finish first.
///
/// # Errors
/// The keys cannot be read, the directory's query is wrong, the database does not respond, the address for
/// metrics is taken, or the namespace belongs to another installation.
pub(crate) async fn run(
    config: Config,
    unknown_recipients: UnknownRecipients,
    listeners: GatewayListeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let GatewayListeners { public, api } = listeners;
    let connections = connections_of_each(limits::raise_descriptors(), 1 + usize::from(api.is_some()));
    let _listening = match config.gateway.metrics_listen {
        Some(address) => Some(listen_for_metrics(address, metrics::export_text).await?),
        None => None,
    };
    let store = storage::open(&config.database_url).await?;
    names::store_names(&*store, &config).await?;
    if let Err(error) = compare_zone_data(&*store).await {
        tracing::warn!(%error, "cannot compare the zone data with that of the workers");
    }
    let refused = Arc::new(OnceLock::new());
    let (temporal, _connecting) = connect_in_background(&config, store.clone(), refused.clone(), shutdown.clone());
    // The gateway also works without DKIM keys, except for rendering single messages.
    let own = installation::profile(&config, ProcessRole::Gateway, &config.signers().unwrap_or_default());
    let presence = ProcessPresence::new(store.clone(), own);
    let process = presence.id();
    let presence = BackgroundTask::new(&tokio::spawn(presence.run(temporal.clone())));
    let inbox = EventInbox::new(store.clone(), config.inbox);
    let _measuring = BackgroundTask::new(&tokio::spawn(inbox.clone().measure_depth()));
    let forwarder = InboxForwarder::new(inbox.clone(), temporal.clone(), &config.task_queue);
    let jobs = JobRunner::new(store.clone(), temporal.clone(), &config.task_queue, &config.names);
    let words = LocalizedWords::new(config.templates.as_deref()).context("the words of pages cannot be read")?;
    let settings = Arc::new(Settings { unknown_recipients, ..config.unchecked_settings() });
    let words = Arc::new(words);
    let (recorder, recording) = TrackingRecorder::start(store.clone(), settings.clone());
    let directory = config.checked_directory().await?;
    let state = GatewayState { store: store.clone(), directory, settings, words, recorder, temporal };
    let fetcher = HttpFetcher::new();
    let (hooks, certificates) = (config.webhooks()?, CertificateCache::new(fetcher.clone()));
    let issuer = config.gateway.oidc.clone().map(|trust| Arc::new(OidcIssuer::new(trust, fetcher)));
    tracing::info!(
        listen = %public.local_addr()?,
        public_url = config.gateway.pages.public_url.as_deref().unwrap_or_default(),
        api_listen = ?api.as_ref().and_then(|api| api.local_addr().ok()),
        zone_data = %zone_data(),
        "gateway started"
    );
    let webhooks = WebhookContext { state: state.clone(), hooks, certificates };
    let trusted = config.gateway.trusted_proxies.clone();
    let body_bytes = config.gateway.body_bytes.unwrap_or_else(|| body_bytes(limits::memory()));
    let admission = AdmissionLimits { trusted: trusted.clone(), body_bytes };
    let router = routes::router(state.clone(), webhooks, admission.clone());
    let limits = ConnectionLimits { connections, of_client: connections / 4, trusted, ..ConnectionLimits::default() };
    let serving = server::serve(public, router, limits.clone(), shutdown.clone());
    let making = api.as_ref().and_then(|_| load_rendering(&config)).map(Arc::new);
    let (task_queue, archive) = (config.task_queue.clone(), config.retention.settings.archive.clone());
    let api_router = api::router(ApiState { state, task_queue, inbox, archive, making }, issuer, admission);
    let serving_api = async {
        match api {
            Some(listener) => {
                // Services share few addresses, so each address may open more connections.
                let limits = ConnectionLimits { of_client: connections / 2, ..limits };
                server::serve(listener, api_router, limits, shutdown.clone()).await;
            }
            // The recorder only ends once all routers are dropped.
            None => drop(api_router),
        }
    };
    tokio::join!(serving, serving_api, forwarder.run(shutdown.clone()), jobs.run(shutdown.clone()));
    if timeout(RECORDING, recording).await.is_err() {
        tracing::warn!("opens and clicks of the last seconds are lost: the database does not respond");
    }
    drop(presence);
    if let Err(error) = store.remove_process(process).await {
        tracing::warn!(%error, "cannot deregister this gateway: it counts as alive for another minute");
    }
    tracing::info!("gateway stopped");
    let refusal = Arc::into_inner(refused).and_then(OnceLock::into_inner);
    refusal.map_or(Ok(()), |refusal: ClaimRefusal| Err(refusal.into()))
}

fn body_bytes(memory: Option<u64>) -> usize {
    let part = memory.map(|memory| usize::try_from(memory / BODY_PART).unwrap_or(usize::MAX));
    part.map_or(AdmissionLimits::BODY_BYTES, |part| part.clamp(LEAST_BODY_BYTES, AdmissionLimits::BODY_BYTES))
}

/// A flood on one listener should leave file descriptors for the others.
fn connections_of_each(descriptors: Option<u64>, listeners: usize) -> usize {
    let own = OWN_DESCRIPTORS + METRICS_CONNECTIONS;
    let fits = descriptors.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let connections = (fits.saturating_sub(own) / listeners).clamp(FEW_CONNECTIONS, ConnectionLimits::CONNECTIONS);
    let effect = format!("each listener takes {connections} connections instead of {}", ConnectionLimits::CONNECTIONS);
    limits::check_descriptors(descriptors, own + listeners * ConnectionLimits::CONNECTIONS, &effect);
    connections
}

/// Loads the templates and DKIM keys. If this fails, only routes that render messages are affected.
fn load_rendering(config: &Config) -> Option<RenderContext> {
    let load = || {
        let renderer = TemplateRenderer::new(config.templates.as_deref()).context("the templates cannot be read")?;
        anyhow::Ok(RenderContext { renderer: Arc::new(renderer), signers: config.signers()? })
    };
    load().inspect_err(|error| tracing::error!("API cannot render messages; /v1/messages is disabled: {error:#}")).ok()
}

/// Connects in the background. Links work without Temporal, and while workers with another database of this
/// installation are running. In another installation's namespace, the gateway shuts down.
fn connect_in_background(
    config: &Config,
    store: Arc<dyn Store>,
    refused: Arc<OnceLock<ClaimRefusal>>,
    shutdown: CancellationToken,
) -> (watch::Receiver<Option<Client>>, BackgroundTask) {
    let (sender, receiver) = watch::channel(None);
    let temporal = config.temporal.clone();
    let connecting = tokio::spawn(async move {
        let Some(client) = connect_with_retry(&temporal, "gateway", &shutdown).await else { return };
        let refusal = installation::publish_client(&*store, client, &sender).await;
        let _ = refused.set(refusal);
        drop(refused);
        shutdown.cancel();
    });
    (receiver, BackgroundTask::new(&connecting))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_memory_for_bodies_follows_the_limit_of_the_process() {
        for (memory, mebibytes) in
            [(None, 128), (Some(64 * MIB), 40), (Some(256 * MIB), 51), (Some(512 * MIB), 102), (Some(8192 * MIB), 128)]
        {
            assert_eq!(body_bytes(memory) as u64 / MIB, mebibytes, "{memory:?}");
        }
    }

    #[test]
    fn listeners_share_the_file_descriptors_evenly() {
        for (descriptors, listeners, connections) in [
            (None, 2, 1024),
            (Some(1 << 20), 2, 1024),
            (Some(1024), 1, 892),
            (Some(1024), 2, 446),
            (Some(64), 2, FEW_CONNECTIONS),
        ] {
            assert_eq!(connections_of_each(descriptors, listeners), connections, "{descriptors:?} {listeners}");
        }
    }
}
