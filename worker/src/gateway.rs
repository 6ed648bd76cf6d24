//! The run loop of the gateway.

use std::sync::Arc;

use temporalio_client::Client;
use tidings_gateway::{
    State, metrics, routes, server,
    webhooks::{
        Webhooks,
        ses::{Certificates, Https},
    },
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Config,
    config::Temporal,
    storage::Storage,
    worker::{Background, connected, listen_for_metrics},
};

/// Serves until `shutdown` is cancelled; requests in progress are answered first.
///
/// # Errors
/// The keys cannot be read, the database does not answer, or the address for metrics is taken.
pub(crate) async fn run(config: Config, listener: TcpListener, shutdown: CancellationToken) -> anyhow::Result<()> {
    let _listening = match config.gateway.metrics_listen {
        Some(address) => Some(listen_for_metrics(address, metrics::text).await?),
        None => None,
    };
    let store = Storage::connect(&config.database_url).await?.ready().await?;
    let (temporal, _connecting) = connecting(config.temporal.clone(), shutdown.clone());
    let state = State { store, settings: Arc::new(config.unsigned()), temporal };
    tracing::info!(
        listen = %listener.local_addr()?,
        public_url = config.gateway.pages.public_url.as_deref().unwrap_or_default(),
        "the gateway runs"
    );
    let (hooks, certificates) = (config.webhooks()?, Certificates::new(Https::new()));
    let webhooks = Webhooks { state: state.clone(), hooks, certificates };
    let router = routes::router(state, webhooks, config.gateway.trusted_proxies.clone());
    server::serve(listener, router, server::Limits::default(), shutdown).await;
    tracing::info!("the gateway stops");
    Ok(())
}

/// Connects to Temporal in the background. Links work while Temporal is away.
fn connecting(temporal: Temporal, shutdown: CancellationToken) -> (watch::Receiver<Option<Client>>, Background) {
    let (sender, receiver) = watch::channel(None);
    let connecting = tokio::spawn(async move {
        if let Some(client) = connected(&temporal, "gateway", &shutdown).await {
            sender.send_replace(Some(client));
        }
    });
    (receiver, Background::new(&connecting))
}
