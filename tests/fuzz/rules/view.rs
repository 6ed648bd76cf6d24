//! A digest as templates see it.

use std::sync::LazyLock;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};
use tidings_mail::{
    render::{TemplateView, ViewInput, ViewLinks},
    words::LocalizedWords,
};
use tidings_model::{
    Key,
    records::{DigestContents, DigestLine, LineItem, Recipient},
    settings::TenantBrand,
    window::Window,
};
use uuid::Uuid;

static WORDS: LazyLock<LocalizedWords> = LazyLock::new(|| LocalizedWords::new(None).expect("the shipped words"));

/// A group of two events that say the same, with this actor and payload.
pub(super) fn group(actor: &str, payload: Map<String, Value>) -> DigestLine {
    let at = Timestamp::UNIX_EPOCH;
    DigestLine {
        category: "comment".into(),
        section: None,
        entity_type: String::new(),
        entity_id: String::new(),
        count: 2,
        counts: [].into(),
        first_at: at,
        last_at: at,
        actor_count: 2,
        actors: Vec::new(),
        latest: vec![LineItem { count: 2, at, actor: actor.to_owned(), payload }],
    }
}

/// The view of a digest of these groups and seven more events, in a language.
pub(super) fn view(lines: Vec<DigestLine>, name: &str, language: &str) -> TemplateView {
    let events: u64 = lines.iter().map(|group| group.count).sum();
    let counts = lines.iter().flat_map(|group| group.counts.clone()).collect();
    let contents =
        DigestContents { claimed_at: None, items: events + 7, line_count: lines.len() as u64 + 1, counts, lines };
    let key = Key { tenant: "acme".into(), digest_type: "activity".into(), user: "ann".into() };
    let (tenant, user) = (key.tenant.clone(), key.user.clone());
    let (address, name) = ("ann@recipient.example".into(), name.to_owned());
    let recipient = Recipient { tenant, user, address, name, zone: String::new(), locale: String::new() };
    let (opened_at, due_at) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    TemplateView::new(&ViewInput {
        contents: &contents,
        window: &Window { key, digest_id: Uuid::nil(), opened_at, due_at },
        recipient: &recipient,
        zone: &TimeZone::UTC,
        title: None,
        cadence: "daily 08:00",
        links: &ViewLinks { more_url: Some("https://acme.example/more".into()), ..ViewLinks::default() },
        brand: &TenantBrand::default(),
        phrases: WORDS.choose([language]),
    })
}
