//! A digest type as `tidings.toml` describes it.

use std::{collections::BTreeMap, time::Duration};

use jiff::tz::TimeZone;
use serde::Deserialize;
use tidings_activities::settings::DigestSettings;
use tidings_workflows::{Cadence, ParseError, Quiet, words};
use toml::Spanned;
use url::Url;

use super::{file::nearest, problem::Checks};

/// A spread is for the mails of one slot, and slots are hours or days apart.
const LONGEST_SPREAD: Duration = Duration::from_secs(12 * 3600);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    cadence: Spanned<String>,
    #[serde(default)]
    delay: BTreeMap<String, Spanned<String>>,
    first_now: Option<Spanned<String>>,
    throttle: Option<Spanned<String>>,
    zone: Option<Spanned<String>>,
    spread: Option<Spanned<String>>,
    quiet: Option<Spanned<Vec<Spanned<String>>>>,
    template: Option<Spanned<String>>,
    max_items: Option<Spanned<i64>>,
    max_events: Option<Spanned<i64>>,
    more_url: Option<Spanned<String>>,
}

impl Written {
    pub fn check(&self, name: &str, checks: &mut Checks<'_>) -> Option<DigestSettings> {
        let key = |key: &str| format!("digest.{name}.{key}");
        let cadence = checks.value(&key("cadence"), Some(&self.cadence), cadence);
        let delay = self.delay.iter().map(|(category, wait)| {
            Some((category.clone(), checks.value(&key(&format!("delay.{category}")), Some(wait), words::duration)?))
        });
        let delay = delay.collect::<Vec<_>>();
        let first_now = checks.value(&key("first_now"), self.first_now.as_ref(), words::duration);
        let throttle = checks.value(&key("throttle"), self.throttle.as_ref(), words::duration);
        let zone = checks.value(&key("zone"), self.zone.as_ref(), zone);
        let spread = checks.value(&key("spread"), self.spread.as_ref(), spread);
        let quiet = self.quiet(&key("quiet"), checks);
        let template = self.template.as_ref().map_or_else(|| name.to_owned(), |template| template.as_ref().clone());
        let max_items = checks.count(&key("max_items"), self.max_items.as_ref());
        let max_events = checks.count(&key("max_events"), self.max_events.as_ref());
        let more_url = checks.value(&key("more_url"), self.more_url.as_ref(), more_url);
        Some(DigestSettings {
            cadence: cadence?,
            delay: delay.into_iter().collect::<Option<_>>()?,
            first_now,
            throttle,
            zone,
            spread,
            quiet: quiet?,
            template,
            max_items: max_items.unwrap_or(DigestSettings::MAX_ITEMS),
            max_events,
            more_url,
        })
    }

    /// Each quiet time is checked, then all of them together.
    fn quiet(&self, key: &str, checks: &mut Checks<'_>) -> Option<Quiet> {
        let Some(written) = &self.quiet else { return Some(Quiet::default()) };
        let times: Vec<_> = written.as_ref().iter().map(|time| checks.value(key, Some(time), str::parse)).collect();
        let times: Vec<_> = times.into_iter().collect::<Option<_>>()?;
        let words: Vec<_> = written.as_ref().iter().map(|time| time.as_ref().as_str()).collect();
        let all = Spanned::new(written.span(), words.join(", "));
        checks.value(key, Some(&all), |_| Quiet::new(times).map_err(|error| error.to_string()))
    }
}

fn cadence(text: &str) -> Result<Cadence, String> {
    // The key and the value are said already.
    text.parse().map_err(|error: ParseError| error.problem().to_owned())
}

fn spread(text: &str) -> Result<Duration, String> {
    let spread = words::duration(text)?;
    if spread > LONGEST_SPREAD { Err("is longer than 12h; write for example \"15m\"".to_owned()) } else { Ok(spread) }
}

/// An IANA time zone's name.
///
/// # Errors
/// Says what would be right.
pub fn zone(text: &str) -> Result<String, String> {
    TimeZone::get(text).map(|_| text.to_owned()).map_err(|_| {
        let names: Vec<_> = jiff::tz::db().available().collect();
        match nearest(text, names.iter().map(jiff::tz::TimeZoneName::as_str)) {
            Some(name) => format!("is no IANA time zone; did you mean {name:?}?"),
            None => "is no IANA time zone; write for example \"Europe/Berlin\"".to_owned(),
        }
    })
}

fn more_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://app.example.com/activity\"";
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(text.to_owned()),
        Ok(url) => Err(format!("{:?} is neither http nor https; {right}", url.scheme())),
        Err(error) => Err(format!("is no URL ({error}); {right}")),
    }
}
