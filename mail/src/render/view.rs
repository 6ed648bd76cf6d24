//! Builds the digest view for templates, as a pure function. All values are clean, so a template cannot
//! forget or undo this.

use std::{cmp::Reverse, collections::BTreeSet};

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};
use tera::Value;
use tidings_model::{
    records::{DigestContents, DigestLine, Recipient},
    settings,
    window::Window,
};

use super::{
    clean::{self, NAME_CHARS},
    line::{CleanCounts, CountLabel, LineView, sums},
    words::{self, FormattedTimes, TimeContext},
};
use crate::words::Phrases;

/// For templates, outside of lines.
const LATEST_ITEMS: usize = 10;

pub struct ViewInput<'a> {
    pub contents: &'a DigestContents,
    pub window: &'a Window,
    /// The view ignores its address.
    pub recipient: &'a Recipient,
    pub zone: &'a TimeZone,
    pub title: Option<&'a str>,
    pub cadence: &'a str,
    pub links: &'a ViewLinks,
    pub brand: &'a settings::TenantBrand,
    pub phrases: Phrases<'a>,
}

/// Templates omit missing links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewLinks {
    /// Page with the lines that don't fit.
    #[serde(default)]
    pub more_url: Option<String>,
    #[serde(default)]
    pub unsubscribe_url: Option<String>,
    #[serde(default)]
    pub preferences_url: Option<String>,
    /// Page to undo an adapted cadence.
    #[serde(default)]
    pub as_before_url: Option<String>,
    #[serde(default)]
    pub view_url: Option<String>,
}

impl ViewLinks {
    pub(super) fn safe_links(&self) -> Self {
        let safe = |link: &Option<String>| link.as_deref().and_then(clean::clean_url);
        Self {
            more_url: safe(&self.more_url),
            unsubscribe_url: safe(&self.unsubscribe_url),
            preferences_url: safe(&self.preferences_url),
            as_before_url: safe(&self.as_before_url),
            view_url: safe(&self.view_url),
        }
    }

    pub(super) fn untracked_links(&self) -> Vec<&str> {
        [&self.unsubscribe_url, &self.preferences_url, &self.as_before_url, &self.view_url]
            .into_iter()
            .filter_map(Option::as_deref)
            .collect()
    }
}

#[derive(Clone, PartialEq, Serialize)]
pub struct TemplateView {
    /// Language tag for the HTML attribute `lang`.
    pub lang: String,
    /// `ltr` or `rtl`.
    pub dir: &'static str,
    /// Selects the tenant's overrides for `t`.
    pub tenant: String,
    pub brand: BrandView,
    pub digest: DigestContext,
    pub recipient: ReaderView,
    pub links: ViewLinks,
}

/// In the recipient's zone.
#[derive(Clone, PartialEq, Serialize)]
pub struct DigestContext {
    pub id: String,
    #[serde(rename = "type")]
    pub digest_type: String,
    pub name: String,
    pub window: WindowSpan,
    /// E.g. `Mon, Feb 3, 8:00 AM`; with the year if the digest was claimed in another one.
    pub opened_at: String,
    pub cadence: String,
    /// Includes hidden events.
    pub item_count: u64,
    /// Includes hidden lines.
    pub line_count: u64,
    /// Number of distinct entities, if all lines are known.
    pub entity_count: Option<u64>,
    /// Set if all known lines share the same type.
    pub entity_type: Option<String>,
    pub counts: Value,
    /// Formatted counts, worst first.
    pub sums: Vec<CountLabel>,
    pub lines: Vec<Value>,
    pub sections: Vec<LineSection>,
    /// Latest items shown in any line, newest first.
    pub items: Vec<Value>,
    pub more: OmittedCounts,
}

/// Lines with a common heading, ordered by their first lines.
#[derive(Clone, PartialEq, Serialize)]
pub struct LineSection {
    /// `None` for lines without a section.
    pub title: Option<String>,
    pub lines: Vec<Value>,
}

#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct WindowSpan {
    pub opened_at: String,
    pub closed_at: String,
    /// The date is not repeated if both times share it, and years only appear if they differ.
    pub span: String,
    /// IANA name.
    pub zone: String,
    /// Readable zone, e.g. `Berlin`.
    pub zone_name: String,
}

#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ReaderView {
    pub user: String,
    pub name: String,
    pub locale: String,
    pub zone: String,
}

impl ReaderView {
    pub(super) fn new(user: &str, recipient: &Recipient, zone: &str) -> Self {
        let text = |value| clean::clean_text(value, NAME_CHARS).into_owned();
        Self { user: text(user), name: text(&recipient.name), locale: text(&recipient.locale), zone: text(zone) }
    }
}

/// Left out of the message (rule 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OmittedCounts {
    pub lines: u64,
    pub items: u64,
}

impl TemplateView {
    #[must_use]
    pub fn new(input: &ViewInput<'_>) -> Self {
        let ViewInput { contents, window, recipient, zone, title, links, brand, phrases, .. } = *input;
        let closed_at = contents.claimed_at.unwrap_or(window.due_at);
        // Use the time of the claim as "now", so rendering again gives the same bytes.
        let (this_year, written) = (zone.to_datetime(closed_at).year(), FormattedTimes::default());
        let local = TimeContext { phrases, zone, now: closed_at, this_year, written: &written };
        let window_words = WindowSpan::new(window.opened_at, closed_at, local);
        let reader = ReaderView::new(&window.key.user, recipient, &window_words.zone);
        let links = links.safe_links();
        let lines: Vec<_> =
            contents.lines.iter().map(|group| Value::from_serializable(&LineView::new(group, local))).collect();
        let digest = DigestContext {
            id: window.digest_id.to_string(),
            digest_type: clean::clean_text(&window.key.digest_type, NAME_CHARS).into_owned(),
            name: clean::clean_text(&phrases.digest_name(&window.key.digest_type, title), NAME_CHARS).into_owned(),
            opened_at: window_words.opened_at.clone(),
            window: window_words,
            cadence: words::how_often(phrases, input.cadence),
            item_count: contents.items,
            line_count: contents.line_count,
            entity_count: entity_count(contents),
            entity_type: entity_type(&contents.lines),
            counts: Value::from_serializable(&CleanCounts(&contents.counts)),
            sums: sums(phrases, &contents.counts),
            items: latest_items(&contents.lines, &lines),
            lines,
            sections: Vec::new(),
            more: OmittedCounts { lines: 0, items: 0 },
        };
        let (lang, dir) = (phrases.tag().to_owned(), phrases.direction());
        let (tenant, brand) = (window.key.tenant.clone(), BrandView::new(brand));
        Self { lang, dir, tenant, brand, digest, recipient: reader, links }.with_sections()
    }

    pub(super) fn items_of_a_line(&self) -> usize {
        self.digest.lines.iter().map(|line| items_of(line).len()).max().unwrap_or_default()
    }

    #[must_use]
    pub(super) fn with_items(mut self, most: usize) -> Self {
        self.digest.lines = self.digest.lines.iter().map(|line| with_items(line, most)).collect();
        self.with_sections()
    }

    /// Adds the rest to `more`.
    #[must_use]
    pub(super) fn with_lines(mut self, shown: usize) -> Self {
        self.digest.lines.truncate(shown);
        self.with_sections()
    }

    /// Also updates `more`.
    #[must_use]
    pub(super) fn with_sections(mut self) -> Self {
        let digest = &mut self.digest;
        digest.sections = sections(&digest.lines);
        let items: u64 = digest.lines.iter().filter_map(|line| line.get_from_path("count")?.as_u64()).sum();
        let lines = u64::try_from(digest.lines.len()).unwrap_or(u64::MAX);
        digest.more = OmittedCounts {
            lines: digest.line_count.saturating_sub(lines),
            items: digest.item_count.saturating_sub(items),
        };
        self
    }
}

fn sections(lines: &[Value]) -> Vec<LineSection> {
    let mut sections: Vec<LineSection> = Vec::new();
    for line in lines {
        let title = line.get_from_path("section").and_then(Value::as_str);
        match sections.iter_mut().find(|section| section.title.as_deref() == title) {
            Some(section) => section.lines.push(line.clone()),
            None => sections.push(LineSection { title: title.map(str::to_owned), lines: vec![line.clone()] }),
        }
    }
    sections
}

fn with_items(line: &Value, most: usize) -> Value {
    let items: Vec<_> = items_of(line).iter().take(most).cloned().collect();
    let count = |value: &Value| value.get_from_path("count").and_then(Value::as_u64).unwrap_or_default();
    let shown: u64 = items.iter().map(count).sum();
    let mut fields = line.clone().into_map().unwrap_or_default();
    fields.insert("more".into(), count(line).saturating_sub(shown).into());
    fields.insert("items".into(), items.into());
    fields.into()
}

pub(super) fn items_of(line: &Value) -> &[Value] {
    line.get_from_path("items").and_then(Value::as_array).unwrap_or_default()
}

/// Items with equal times keep the order of their lines.
fn latest_items<'a>(lines: &'a [DigestLine], shown: &'a [Value]) -> Vec<Value> {
    let of_line =
        |(group, line): (&'a DigestLine, &'a Value)| group.latest.iter().map(|item| item.at).zip(items_of(line));
    let mut items: Vec<_> = lines.iter().zip(shown).flat_map(of_line).collect();
    items.sort_by_key(|(at, _)| Reverse(*at));
    items.into_iter().take(LATEST_ITEMS).map(|(_, item)| item.clone()).collect()
}

impl WindowSpan {
    fn new(opened: Timestamp, closed: Timestamp, local: TimeContext<'_>) -> Self {
        let TimeContext { phrases, zone, this_year, .. } = local;
        let (opened, closed) = (zone.to_datetime(opened), zone.to_datetime(closed));
        let [opened_at, closed_at] = [opened, closed].map(|at| phrases.day_time(at, this_year));
        let end = match (opened.date() == closed.date(), opened.year() == closed.year()) {
            (true, _) => phrases.time(closed.time()),
            (false, true) => closed_at.clone(),
            (false, false) => phrases.day_time(closed, opened.year()),
        };
        let within_a_minute = opened.date() == closed.date() && end == phrases.time(opened.time());
        let variables = [("from", opened_at.as_str().into()), ("to", end.into())];
        let span = if within_a_minute { opened_at.clone() } else { phrases.message_with("span", variables) };
        let zone = zone.iana_name().unwrap_or("UTC").to_owned();
        Self { opened_at, closed_at, span, zone_name: phrases.zone(&zone), zone }
    }
}

fn entity_count(contents: &DigestContents) -> Option<u64> {
    let all_known = u64::try_from(contents.lines.len()).is_ok_and(|known| known == contents.line_count);
    let entities: BTreeSet<_> = contents.lines.iter().map(|group| (&group.entity_type, &group.entity_id)).collect();
    all_known.then(|| u64::try_from(entities.len()).unwrap_or(u64::MAX))
}

fn entity_type(lines: &[DigestLine]) -> Option<String> {
    let first = &lines.first()?.entity_type;
    let same = !first.is_empty() && lines.iter().all(|group| group.entity_type == *first);
    same.then(|| clean::clean_text(first, NAME_CHARS).into_owned())
}

/// In characters.
const LINE_CHARS: usize = 300;

/// All fields are `None` without the tenant's own branding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BrandView {
    /// Familiar to recipients. Always set with a logo.
    pub name: Option<String>,
    pub logo_url: Option<String>,
    /// E.g. `#1f56c8`; dark enough for white text.
    pub colour: Option<String>,
    pub address_line: Option<String>,
}

impl BrandView {
    #[must_use]
    pub fn new(brand: &settings::TenantBrand) -> Self {
        let text =
            |value: &Option<String>, chars| value.as_deref().map(|text| clean::clean_text(text, chars).into_owned());
        Self {
            name: text(&brand.name, NAME_CHARS),
            logo_url: brand.logo_url.as_deref().and_then(clean::clean_url),
            colour: brand.colour.map(|colour| colour.to_string()),
            address_line: text(&brand.address_line, LINE_CHARS),
        }
    }

    pub(super) fn sample() -> Self {
        let text = |text: &str| Some(text.to_owned());
        Self {
            name: text("Acme & Sons"),
            logo_url: text("https://acme.example/logo.png"),
            colour: text("#8a1c4a"),
            address_line: text("Acme & Sons, 1 Main Street, Springfield"),
        }
    }
}
