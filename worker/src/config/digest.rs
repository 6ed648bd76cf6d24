//! Digest types, as `[digest.NAME]` describes them.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use tidings_model::{
    Cadence, ParseError, Quiet,
    offered_cadences::{Choice, Choices},
    settings::{Categories, CategorySettings, Counted, DigestSettings, OverLimit, Track},
    words, zone,
};
use toml::Spanned;
use url::Url;

use super::{
    brand,
    category::{self, RawCategory},
    list::{SpannedList, parse_each},
    problem::{Checks, Problem},
    seen,
    tenant::RawDigests,
};

mod origins;

/// The longest spread. A spread covers the messages of one slot, and slots are hours or days apart.
const LONGEST_SPREAD: Duration = Duration::from_hours(12);

/// The longest wait in which a message can be taken back. A message that waits longer is late.
const LONGEST_UNDO: Duration = Duration::from_hours(1);

/// The keys of `[digest.NAME]` and of `[tenant.NAME.digest.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDigest {
    was: Option<SpannedList>,
    cadence: Option<Spanned<String>>,
    #[serde(default)]
    delay: BTreeMap<String, Spanned<String>>,
    first_now: Option<Spanned<String>>,
    throttle: Option<Spanned<String>>,
    throttled: Option<Spanned<String>>,
    linger: Option<Spanned<String>>,
    undo: Option<Spanned<String>>,
    adapt: Option<Spanned<bool>>,
    choices: Option<SpannedList>,
    zone: Option<Spanned<String>>,
    weekdays: Option<Spanned<String>>,
    spread: Option<Spanned<String>>,
    quiet: Option<SpannedList>,
    template: Option<Spanned<String>>,
    max_items: Option<Spanned<i64>>,
    max_lines: Option<Spanned<i64>>,
    max_events: Option<Spanned<i64>>,
    min_count: Option<Spanned<i64>>,
    max_age: Option<Spanned<String>>,
    more_url: Option<Spanned<String>>,
    title: Option<Spanned<String>>,
    description: Option<Spanned<String>>,
    #[serde(default)]
    categories: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    category: BTreeMap<String, RawCategory>,
    track: Option<SpannedList>,
    seen_url: Option<Spanned<String>>,
    seen_secret_env: Option<Spanned<String>>,
}

impl RawDigest {
    /// Returns the keys that a tenant sets for all its digest types.
    pub fn everywhere(
        zone: Option<Spanned<String>>,
        weekdays: Option<Spanned<String>>,
        quiet: Option<SpannedList>,
    ) -> Self {
        Self { zone, weekdays, quiet, ..Self::default() }
    }

    /// The names that the digest type had before.
    pub const fn was(&self) -> Option<&SpannedList> {
        self.was.as_ref()
    }

    /// Merges two tables. These keys override those of `base`.
    pub fn over(self, base: &Self) -> Self {
        let base = base.clone();
        let category = category::over(self.category, &base.category);
        Self {
            was: base.was,
            cadence: self.cadence.or(base.cadence),
            delay: base.delay.into_iter().chain(self.delay).collect(),
            first_now: self.first_now.or(base.first_now),
            throttle: self.throttle.or(base.throttle),
            throttled: self.throttled.or(base.throttled),
            linger: self.linger.or(base.linger),
            undo: self.undo.or(base.undo),
            adapt: self.adapt.or(base.adapt),
            choices: self.choices.or(base.choices),
            zone: self.zone.or(base.zone),
            weekdays: self.weekdays.or(base.weekdays),
            spread: self.spread.or(base.spread),
            quiet: self.quiet.or(base.quiet),
            template: self.template.or(base.template),
            max_items: self.max_items.or(base.max_items),
            max_lines: self.max_lines.or(base.max_lines),
            max_events: self.max_events.or(base.max_events),
            min_count: self.min_count.or(base.min_count),
            max_age: self.max_age.or(base.max_age),
            more_url: self.more_url.or(base.more_url),
            title: self.title.or(base.title),
            description: self.description.or(base.description),
            categories: base.categories.into_iter().chain(self.categories).collect(),
            category,
            track: self.track.or(base.track),
            seen_url: self.seen_url.or(base.seen_url),
            seen_secret_env: self.seen_secret_env.or(base.seen_secret_env),
        }
    }

    /// Tells if the cadence of recipients may be adapted.
    pub fn adapts(&self) -> bool {
        self.adapt.as_ref().is_some_and(|adapt| *adapt.as_ref())
    }

    /// Checks the keys of `table` for the digest type `name`; `None` without a cadence.
    pub fn check(&self, table: &str, name: &str, checks: &mut Checks<'_>) -> Option<DigestSettings> {
        let key = |key: &str| format!("{table}.{key}");
        let cadence = checks.value(&key("cadence"), self.cadence.as_ref(), cadence);
        let delay = self.delay.iter().map(|(category, wait)| {
            let place = checks.place_of(wait);
            checks.report_star(&key("delay"), category, place, "what `delay` does not name waits as `cadence` says");
            Some((category.clone(), checks.value(&key(&format!("delay.{category}")), Some(wait), words::duration)?))
        });
        let delay = delay.collect::<Vec<_>>();
        let mut duration = |name, value: &Option<_>| checks.value(&key(name), value.as_ref(), words::duration);
        let first_now = duration("first_now", &self.first_now);
        let throttle = duration("throttle", &self.throttle);
        let linger = duration("linger", &self.linger);
        let undo = checks.value(&key("undo"), self.undo.as_ref(), undo);
        let throttled = checks.value(&key("throttled"), self.throttled.as_ref(), over_limit);
        let choices = self.choices.as_ref().map(|raw| choices(&key("choices"), raw, checks));
        let zone = checks.value(&key("zone"), self.zone.as_ref(), zone);
        let weekdays = checks.value(&key("weekdays"), self.weekdays.as_ref(), str::parse);
        let spread = checks.value(&key("spread"), self.spread.as_ref(), spread);
        let quiet = self.quiet.as_ref().map(|raw| quiet(&key("quiet"), raw, checks));
        let max_items = checks.count(&key("max_items"), self.max_items.as_ref());
        let max_lines = checks.count_to(DigestSettings::MOST_LINES, &key("max_lines"), self.max_lines.as_ref());
        let max_events = checks.count(&key("max_events"), self.max_events.as_ref());
        let more_url = checks.value(&key("more_url"), self.more_url.as_ref(), more_url);
        let title = checks.value(&key("title"), self.title.as_ref(), brand::name);
        let description = checks.value(&key("description"), self.description.as_ref(), brand::sentence);
        let categories = self.categories.iter().map(|(category, title)| {
            let place = checks.place_of(title);
            checks.report_star(&key("categories"), category, place, "name each one that recipients may turn off");
            let key = key(&format!("categories.{category}"));
            Some((category.clone(), checks.value(&key, Some(title), brand::name)?))
        });
        let categories = categories.collect::<Vec<_>>();
        let others = CategorySettings {
            min_count: checks.count(&key("min_count"), self.min_count.as_ref()),
            max_age: checks.value(&key("max_age"), self.max_age.as_ref(), words::duration),
            ..CategorySettings::default()
        };
        let former_categories = category::former(&key("category"), &self.category, checks);
        let category = category::check(&key("category"), &self.category, others, checks);
        let seen = seen::check(table, self.seen_url.as_ref(), self.seen_secret_env.as_ref(), checks);
        let track = self.track.as_ref().map(|raw| parse_each(&key("track"), raw, checks, counted));
        let track: Track = track.unwrap_or_else(|| Some(Vec::new()))?.into_iter().collect();
        let adapt = self.adapt.as_ref().map_or(Some(false), |adapt| {
            let written = Spanned::new(adapt.span(), adapt.as_ref().to_string());
            checks.value(&key("adapt"), Some(&written), |_| adapts(*adapt.as_ref(), track))
        });
        let (former_categories, category) = (former_categories?, category?);
        let named = category::under_any_name(category.named, &former_categories);
        let delay = delay.into_iter().collect::<Option<BTreeMap<_, _>>>()?;
        Some(DigestSettings {
            cadence: cadence?,
            delay: category::under_any_name(delay, &former_categories),
            first_now,
            throttle,
            throttled: throttled.unwrap_or_default(),
            linger,
            undo,
            adapt: adapt?,
            choices: choices.unwrap_or_else(|| Some(Choices::default()))?,
            zone,
            weekdays,
            spread,
            quiet: quiet.unwrap_or_else(|| Some(Quiet::default()))?,
            template: self.template.as_ref().map_or_else(|| name.to_owned(), |template| template.as_ref().clone()),
            max_items: max_items.unwrap_or(DigestSettings::MAX_ITEMS),
            max_lines: max_lines.unwrap_or(DigestSettings::MAX_LINES),
            max_events,
            more_url,
            title,
            description,
            categories: categories.into_iter().collect::<Option<_>>()?,
            category: Categories { named, ..category },
            former_categories,
            track,
            seen: seen?,
        })
    }
}

/// Reports each digest type of `table` whose messages count while no gateway could.
pub(super) fn report_uncounted(table: &str, digests: &RawDigests, checks: &mut Checks<'_>) {
    for (name, raw) in digests {
        let Some(track) = raw.as_ref().track.as_ref().filter(|track| !track.as_ref().is_empty()) else { continue };
        checks.report(Problem {
            place: checks.place_of(track),
            key: format!("{table}{name}.track"),
            value: String::new(),
            problem: "needs a gateway that counts; set `public_url` in `[gateway]`, for example \
                      \"https://mail.acme.example\""
                .to_owned(),
        });
    }
}

/// Checks a general digest type, which must have a cadence.
pub(super) fn check(name: &str, raw: &Spanned<RawDigest>, checks: &mut Checks<'_>) -> Option<DigestSettings> {
    let table = format!("digest.{name}");
    checks.report_star("digest", name, checks.place_of(raw), "write a table for each digest type");
    if raw.as_ref().cadence.is_none() {
        checks.report(Problem {
            place: checks.place_of(raw),
            key: format!("{table}.cadence"),
            value: String::new(),
            problem: "is missing; write for example \"daily 08:00\"".to_owned(),
        });
    }
    raw.as_ref().check(&table, name, checks)
}

/// Checks each quiet time, then all of them together.
pub(super) fn quiet(key: &str, raw: &SpannedList, checks: &mut Checks<'_>) -> Option<Quiet> {
    let times = parse_each(key, raw, checks, str::parse)?;
    let words: Vec<_> = raw.as_ref().iter().map(|time| time.as_ref().as_str()).collect();
    let all = Spanned::new(raw.span(), words.join(", "));
    checks.value(key, Some(&all), |_| Quiet::new(times).map_err(|error| error.to_string()))
}

fn choices(key: &str, raw: &SpannedList, checks: &mut Checks<'_>) -> Option<Choices> {
    let choice = |text: &str| text.parse::<Choice>().map_err(|error| error.problem().to_owned());
    parse_each(key, raw, checks, choice).map(Choices::new)
}

/// Parses the effect of a throttle or a cap.
pub(super) fn over_limit(text: &str) -> Result<OverLimit, String> {
    let right = "write \"defer\" to wait, or \"skip\" to close the window as throttled";
    OverLimit::named(text).ok_or_else(|| format!("is not an effect of a limit; {right}"))
}

fn cadence(text: &str) -> Result<Cadence, String> {
    // The caller names the key and the value.
    text.parse().map_err(|error: ParseError| error.problem().to_owned())
}

fn spread(text: &str) -> Result<Duration, String> {
    let spread = words::duration(text)?;
    if spread > LONGEST_SPREAD { Err("is longer than 12h; write for example \"15m\"".to_owned()) } else { Ok(spread) }
}

fn undo(text: &str) -> Result<Duration, String> {
    let undo = words::duration(text)?;
    if undo > LONGEST_UNDO { Err("is longer than 1h; write for example \"2m\"".to_owned()) } else { Ok(undo) }
}

/// A reader of messages that count clicks alone may read everything and follow nothing.
fn adapts(adapt: bool, track: Track) -> Result<bool, String> {
    if adapt && !track.opens {
        return Err("needs counted openings: without them nobody is known to have stopped reading; write `track = [\"opens\"]`, \
                    or `[\"opens\", \"clicks\"]`"
            .to_owned());
    }
    Ok(adapt)
}

fn counted(text: &str) -> Result<Counted, String> {
    Counted::named(text).ok_or_else(|| "cannot be counted; write \"opens\", \"clicks\" or both".to_owned())
}

fn more_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://app.example.com/activity\"";
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(text.to_owned()),
        Ok(url) => Err(format!("{:?} is neither http nor https; {right}", url.scheme())),
        Err(error) => Err(format!("is not a URL ({error}); {right}")),
    }
}
