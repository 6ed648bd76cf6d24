//! Dead letters of both sources in one listing.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::records::{
    Cursor, DeadLetterFilter, DeadLetterPlace, DeadLetterRecord, Listed, Page, WebhookLetterFilter, WebhookLetterPlace,
    WebhookLetterRecord,
};
use tidings_store::Store;

/// The source of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Events,
    Webhook,
}

impl Source {
    /// Both sources.
    pub const ALL: [Self; 2] = [Self::Events, Self::Webhook];

    /// The name on the command line and in queries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Webhook => "webhook",
        }
    }
}

/// A dead letter of either source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeadLetter))]
pub enum Letter {
    Webhook(WebhookLetterRecord),
    Events(DeadLetterRecord),
}

/// The place of a dead letter in the listing. Of one instant, letters of webhooks come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Webhook(WebhookLetterPlace),
    Events(DeadLetterPlace),
}

/// A filter of the listing.
pub struct Filter {
    /// Signals and events that could not be decoded. Its page is that of the listing.
    pub events: Option<EventsOf>,
    /// Parts of webhooks that could not be used.
    pub webhooks: bool,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub page: Page<Place>,
}

/// Letters to keys of this tenant, digest type and user. What is `None` selects all.
#[derive(Clone, Debug, Default)]
pub struct EventsOf {
    pub tenant: Option<String>,
    pub digest_type: Option<String>,
    pub user: Option<String>,
}

impl Filter {
    /// Makes the filter of a source, or of both. A letter of a webhook names no key, so that no part of a key selects one.
    #[must_use]
    pub fn new(
        source: Option<Source>,
        of: EventsOf,
        [since, until]: [Option<Timestamp>; 2],
        page: Page<Place>,
    ) -> Self {
        let of_keys = of.tenant.is_some() || of.digest_type.is_some() || of.user.is_some();
        let webhooks = source != Some(Source::Events) && !of_keys;
        let events = (source != Some(Source::Webhook)).then_some(of);
        Self { events, webhooks, since, until, page }
    }
}

/// Lists dead letters, the latest first.
///
/// # Errors
/// The store cannot answer.
pub async fn list(store: &dyn Store, filter: &Filter) -> Result<Listed<Letter, Place>, tidings_store::Error> {
    let Filter { events, webhooks, since, until, page } = filter;
    let (since, until, limit) = (*since, *until, page.limit);
    let after = page.after.as_ref().map(|Cursor(place)| place);
    let (mut rows, mut more) = (Vec::new(), false);
    if *webhooks {
        let page = Page { limit, after: after.map(webhooks_after).map(Cursor) };
        let listed = store.webhook_letters(&WebhookLetterFilter { since, until, page }).await?;
        more |= listed.next.is_some();
        rows.extend(listed.rows.into_iter().map(Letter::Webhook));
    }
    if let Some(EventsOf { tenant, digest_type, user }) = events.clone() {
        let page = Page { limit, after: after.map(events_after).map(Cursor) };
        let listed = store.dead_letters(&DeadLetterFilter { tenant, digest_type, user, since, until, page }).await?;
        more |= listed.next.is_some();
        rows.extend(listed.rows.into_iter().map(Letter::Events));
    }
    Ok(merged(rows, limit as usize, more))
}

/// Webhooks of an instant come before its events, so that an event at the cursor leaves none of them.
fn webhooks_after(place: &Place) -> WebhookLetterPlace {
    match place {
        Place::Webhook(place) => place.clone(),
        Place::Events((at, ..)) => (*at, String::new(), String::new()),
    }
}

/// All events of the instant of a webhook's letter follow the letter. Times are whole milliseconds.
fn events_after(place: &Place) -> DeadLetterPlace {
    match place {
        Place::Events(place) => place.clone(),
        Place::Webhook((at, ..)) => (at.saturating_add(Duration::from_millis(1)).unwrap_or(*at), String::new(), 0),
    }
}

/// `rows` has the letters of each source in their order, webhooks first.
fn merged(mut rows: Vec<Letter>, limit: usize, more: bool) -> Listed<Letter, Place> {
    rows.sort_by_key(|letter| Reverse(letter.buried_at()));
    let more = more || rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|last| Cursor(last.place()));
    Listed { rows, next }
}

impl Letter {
    const fn buried_at(&self) -> Timestamp {
        match self {
            Self::Webhook(letter) => letter.buried_at,
            Self::Events(letter) => letter.buried_at,
        }
    }

    fn place(&self) -> Place {
        match self {
            Self::Webhook(letter) => Place::Webhook((letter.buried_at, letter.relay.clone(), letter.sha256.clone())),
            Self::Events(letter) => Place::Events((letter.buried_at, letter.id.run_id.clone(), letter.id.seq)),
        }
    }
}
