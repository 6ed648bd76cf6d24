//! The network of a run: a proxy on each way of a worker, so that one worker can be cut off while the others go on.

use anyhow::{Context, Result};
use tidings_harness::{
    proxy::{Network, Proxy},
    relay::Relay,
};
use url::Url;

use super::{act::Link, setup::WORKERS};

/// The proxies of a run.
pub struct Links {
    temporal: Vec<Proxy>,
    /// Empty for SQLite, which is a file.
    store: Vec<Proxy>,
    relays: Vec<Proxy>,
    /// The store's address without a proxy.
    store_url: String,
}

impl Links {
    /// Starts the proxies to the server at `temporal`, to the store at `store_url`, and to the relays.
    ///
    /// # Errors
    /// When an address is not a URL, or no port is free.
    pub async fn start(temporal: &str, store_url: &str, relays: &[Relay]) -> Result<Self> {
        let (server, mut links) = (Url::parse(&format!("http://{temporal}"))?, Self::none(store_url));
        for _ in 0..WORKERS {
            links.temporal.push(Proxy::start(&server).await?);
            if store_url.starts_with("postgres") {
                links.store.push(Proxy::start(&Url::parse(store_url)?).await?);
            }
        }
        for relay in relays {
            links.relays.push(Proxy::start(&Url::parse(&relay.url())?).await?);
        }
        Ok(links)
    }

    fn none(store_url: &str) -> Self {
        Self { temporal: Vec::new(), store: Vec::new(), relays: Vec::new(), store_url: store_url.to_owned() }
    }

    /// The address of Temporal for a worker.
    #[must_use]
    pub fn temporal(&self, worker: usize) -> String {
        self.temporal[worker].target()
    }

    /// The URL of the store for a worker.
    ///
    /// # Errors
    /// When the store's URL takes no address.
    pub fn store_url(&self, worker: usize) -> Result<String> {
        let Some(proxy) = self.store.get(worker) else { return Ok(self.store_url.clone()) };
        Ok(proxy.url(Url::parse(&self.store_url)?)?.into())
    }

    /// The URLs of the relays.
    #[must_use]
    pub fn relay_urls(&self) -> Vec<String> {
        self.relays.iter().map(|proxy| format!("smtp://{}", proxy.target())).collect()
    }

    /// Changes the network on one link. Answers `false` if the store is a file, which has no link.
    ///
    /// # Errors
    /// When there is no such relay.
    pub fn set(&self, link: Link, network: Network) -> Result<bool> {
        let proxy = match link {
            Link::Temporal(worker) => self.temporal.get(worker),
            Link::Store(_) if self.store.is_empty() => return Ok(false),
            Link::Store(worker) => self.store.get(worker),
            Link::Relay(relay) => self.relays.get(relay),
        };
        proxy.with_context(|| format!("there is no {link:?}"))?.set(network);
        Ok(true)
    }
}
