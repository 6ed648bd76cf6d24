//! Digest types, as `[digest.NAME]` describes them.

use std::{collections::BTreeMap, time::Duration};

use tidings_model::{
    Cadence, ParseError, Quiet,
    cadence::DayRange,
    offered_cadences::{Choice, Choices},
    settings::{Categories, CategorySettings, Counted, DigestSettings, OverLimit, Track},
    words, zone,
};
use toml::Spanned;
use url::Url;

use super::{
    brand,
    category::{self, RawCategory},
    keys::{Show as _, Shown, Table, table},
    list::{SpannedList, parse_each},
    problem::{Checks, Problem},
    seen,
    tenant::RawDigests,
};

/// The longest spread. A spread covers the messages of one slot, and slots are hours or days apart.
const LONGEST_SPREAD: Duration = Duration::from_hours(12);

/// The longest wait in which a message can be taken back. A message that waits longer is late.
const LONGEST_UNDO: Duration = Duration::from_hours(1);

table! {
    /// The keys of `[digest.NAME]` and of `[tenant.NAME.digest.NAME]`.
    pub(super) struct RawDigest for DigestSettings {
        was: apart(Option<SpannedList>), shown |_| None;
        cadence: text(cadence);
        delay: entries(words::duration, "what `delay` does not name waits as `cadence` says"),
            shown |digest| category::todays(&digest.delay, digest).collect::<BTreeMap<_, _>>().show();
        first_now: text(words::duration);
        throttle: text(words::duration);
        throttled: text(over_limit),
            shown |digest| digest.throttle.map(|_| Shown::Text(digest.throttled.name().to_owned()));
        linger: text(words::duration);
        undo: text(undo);
        adapt: apart(Option<Spanned<bool>>);
        choices: list(choices), shown |_| None;
        zone: text(zone),
            shown |digest| Some(Shown::Text(digest.zone.clone().unwrap_or_else(|| "UTC".to_owned())));
        weekdays: text(str::parse::<DayRange>);
        spread: text(spread);
        quiet: list(quiet);
        template: apart(Option<Spanned<String>>);
        max_items: count(u32::MAX);
        max_lines: count(DigestSettings::MOST_LINES);
        max_events: count(u32::MAX);
        min_count: apart(Option<Spanned<i64>>) in category.others.min_count;
        max_age: apart(Option<Spanned<String>>) in category.others.max_age;
        more_url: text(more_url);
        title: text(brand::name);
        description: text(brand::sentence);
        categories: entries(brand::name, "name each one that recipients may turn off");
        category: apart(BTreeMap<String, RawCategory>), shown category::show;
        track: apart(Option<SpannedList>);
        seen_url: apart(Option<Spanned<String>>),
            shown |digest| Some(Shown::Text(digest.seen.as_ref()?.url.url().to_string()));
        seen_secret_env: apart(Option<Spanned<String>>),
            shown |digest| Some(Shown::Text(digest.seen.as_ref()?.secret_env.clone()));
    }
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

    /// Tells if the cadence of recipients may be adapted.
    pub fn adapts(&self) -> bool {
        self.adapt.as_ref().is_some_and(|adapt| *adapt.as_ref())
    }

    /// Checks the keys of `table` for the digest type `name`. Reports what is wrong, and has the default instead.
    pub fn check(&self, table: &str, name: &str, checks: &mut Checks<'_>) -> DigestSettings {
        let key = |key: &str| format!("{table}.{key}");
        let template = self.template.as_ref().map_or(name, |template| template.as_ref().as_str());
        let mut digest = DigestSettings::new(template, Cadence::Never);
        self.read(table, &mut digest, checks);
        let others = CategorySettings {
            min_count: checks.count(&key("min_count"), self.min_count.as_ref()),
            max_age: checks.value(&key("max_age"), self.max_age.as_ref(), words::duration),
            ..CategorySettings::default()
        };
        let former = category::former(&key("category"), &self.category, checks).unwrap_or_default();
        let category = category::check(&key("category"), &self.category, others, checks).unwrap_or_default();
        let named = category::under_any_name(category.named, &former);
        digest.category = Categories { named, ..category };
        digest.delay = category::under_any_name(digest.delay, &former);
        digest.former_categories = former;
        digest.seen =
            seen::check(table, self.seen_url.as_ref(), self.seen_secret_env.as_ref(), checks).unwrap_or_default();
        let track = match &self.track {
            Some(raw) => parse_each(&key("track"), raw, checks, counted),
            None => Some(Vec::new()),
        };
        if let Some(track) = track {
            digest.track = track.into_iter().collect();
            if let Some(adapt) = &self.adapt {
                let written = Spanned::new(adapt.span(), adapt.as_ref().to_string());
                let adapts = |_: &str| adapts(*adapt.as_ref(), digest.track);
                digest.adapt = checks.value(&key("adapt"), Some(&written), adapts).unwrap_or_default();
            }
        }
        digest
    }
}

/// The settings as `tidings.toml` would say them.
pub(crate) fn show(digest: &DigestSettings) -> Table {
    let mut shown = RawDigest::show(digest);
    shown.insert_value("choices", digest.choices.show());
    shown
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
pub(super) fn check(name: &str, raw: &Spanned<RawDigest>, checks: &mut Checks<'_>) -> DigestSettings {
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
