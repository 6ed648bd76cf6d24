//! Measures the public side of the gateway: webhooks, pages of preferences and redirects of clicks, on PostgreSQL.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http_body_util::Full;
use hyper::{Request, StatusCode, header::USER_AGENT};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_gateway::webhooks::SigningSecret;
use tidings_harness::{env::key, http, outbox::taken_message};
use tidings_model::{ClickLink, PreferencesLink, link_keys::LinkKeys};
use uuid::Uuid;

use crate::{
    figure::Figure,
    load::{Load, Made, Timed},
    rounds::Rounds,
    served::{AWAY, KEYS, RELAY, SECRET, Served},
    worker::user,
};

/// Messages that are made at once.
const AT_ONCE: usize = 64;
/// Recipients, one page each.
const RECIPIENTS: usize = 1_000;
const TARGET: &str = "https://app.acme.example/pages/plans?from=mail";
const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
const RECORDED: &str = "SELECT COUNT(*) FROM delivery_events";

/// Webhooks, pages of preferences and click redirects a second, with the times of their answers, on PostgreSQL
#[derive(Args)]
pub struct Gateway {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Connections of the load generator; the gateway takes 64 requests at once from one client
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Messages that the webhooks report about
    #[arg(long, default_value_t = 10_000)]
    messages: usize,
}

/// The measured routes, in the order of their measurement: clicks are recorded afterwards, and would disturb the others.
#[derive(Clone, Copy)]
enum Route {
    Webhook,
    Page,
    Click,
}

impl Route {
    const ALL: [Self; 3] = [Self::Webhook, Self::Page, Self::Click];

    fn figures(self) -> Timed {
        match self {
            Self::Webhook => Timed::new("webhooks of one event", "requests/s", 1, 1_500.0),
            Self::Page => Timed::new("pages of preferences", "pages/s", 1, 2_000.0),
            Self::Click => Timed::new("click redirects", "redirects/s", 1, 10_000.0),
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::Webhook | Self::Page => StatusCode::OK,
            Self::Click => StatusCode::FOUND,
        }
    }
}

impl Gateway {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        ensure!(self.messages > 0, "--messages 0: the webhooks would report about nothing");
        let mut all = Route::ALL.map(Route::figures);
        for round in 0..rounds.count {
            rounds.say(round, "messages and recipients are made");
            let world = World::new(self.messages).await?;
            for (route, figures) in Route::ALL.into_iter().zip(&mut all) {
                rounds.say(round, figures.what());
                let load = Load::new(world.served.public(), self.connections, route.status());
                let make = |n| world.request(route, n);
                figures.push(&load.measure(Duration::from_secs(self.seconds), make).await?);
                if matches!(route, Route::Webhook) {
                    let (recorded, answered) = (world.served.number(RECORDED).await?, load.answered());
                    ensure!(recorded == i64::try_from(answered)?, "{recorded} of {answered} events are recorded");
                }
            }
        }
        Ok(all.into_iter().flat_map(Timed::all).collect())
    }
}

/// A gateway with messages that a relay took.
struct World {
    served: Served,
    messages: Vec<Uuid>,
    keys: LinkKeys,
    secret: SigningSecret,
    sent_at: Timestamp,
}

impl World {
    async fn new(messages: usize) -> Result<Self> {
        let served = Served::start(AWAY).await?;
        served.import((0..RECIPIENTS).map(user)).await?;
        let store = &served.store;
        let taken = |n: usize| async move { taken_message(&**store, &format!("m{n}")).await };
        let messages = stream::iter(0..messages).map(taken).buffer_unordered(AT_ONCE).try_collect().await?;
        let secret = SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?;
        let sent_at = Timestamp::now() - SignedDuration::from_hours(1);
        let world = Self { served, messages, keys: KEYS.parse()?, secret, sent_at };
        let head = format!("GET {} HTTP/1.1\r\n", world.page(0)?);
        let (status, page) = http::request(world.served.public(), &head, "").await?;
        ensure!(status == 200 && page.contains("<form"), "the page has no form: {status}: {page}");
        Ok(world)
    }

    fn request(&self, route: Route, n: usize) -> Result<Made> {
        let request = match route {
            Route::Webhook => return self.webhook(n),
            Route::Page => Request::get(self.page(n)?),
            Route::Click => Request::get(self.click(n)?),
        };
        Ok(request.header(USER_AGENT, BROWSER).body(Full::default())?)
    }

    /// A report about each message in turn: first that it was delivered, then that it was opened, and so on.
    fn webhook(&self, n: usize) -> Result<Made> {
        let kind = if (n / self.messages.len()).is_multiple_of(2) { "delivered" } else { "opened" };
        let occurred_at = self.sent_at + SignedDuration::from_millis(i64::try_from(n)?);
        let event =
            json!({"kind": kind, "message": self.message(n), "event_id": n.to_string(), "occurred_at": occurred_at});
        let (id, body, now) = (n.to_string(), event.to_string(), Timestamp::now().as_second());
        let signature = self.secret.sign(&id, now, body.as_bytes());
        let request = Request::post(format!("/webhooks/{RELAY}")).header("webhook-id", id);
        let request = request.header("webhook-timestamp", now).header("webhook-signature", signature);
        Ok(request.body(Full::from(body))?)
    }

    fn page(&self, n: usize) -> Result<String> {
        let link =
            PreferencesLink { key: key("activity", &user(n % RECIPIENTS)), message: self.message(n), generation: 0 };
        Ok(format!("/p/{}", link.token(&self.keys).context("no key signs")?))
    }

    fn click(&self, n: usize) -> Result<String> {
        let link = ClickLink { tenant: "acme".to_owned(), message: self.message(n), target: TARGET.to_owned() };
        Ok(format!("/c/{}", link.token(&self.keys).context("no key signs")?))
    }

    fn message(&self, n: usize) -> Uuid {
        self.messages[n % self.messages.len()]
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressBar;
    use tidings_needs::needs;

    use super::*;

    #[needs(postgres)]
    #[tokio::test(flavor = "multi_thread")]
    async fn every_route_is_measured_and_every_event_recorded() {
        let rounds = Rounds { count: 1, progress: ProgressBar::hidden() };
        let figures = Gateway { seconds: 1, connections: 4, messages: 50 }.run(&rounds).await.unwrap();
        assert_eq!(figures.len(), 9);
        assert!(figures.iter().all(|figure| figure.median() > 0.0), "{figures:?}");
    }
}
