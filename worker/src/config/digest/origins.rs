//! The keys that the settings of a digest type come from.

use toml::Spanned;

use super::RawDigest;
use crate::config::{
    origin::{Origin, Origins},
    problem::Checks,
};

impl RawDigest {
    /// The origins of the settings that `table` names. An entry of a table has the name `delay.CATEGORY`.
    pub fn origins(&self, table: &str, checks: &Checks<'_>) -> Origins {
        let texts = [
            ("cadence", &self.cadence),
            ("first_now", &self.first_now),
            ("throttle", &self.throttle),
            ("throttled", &self.throttled),
            ("linger", &self.linger),
            ("undo", &self.undo),
            ("zone", &self.zone),
            ("weekdays", &self.weekdays),
            ("spread", &self.spread),
            ("max_age", &self.max_age),
            ("template", &self.template),
            ("more_url", &self.more_url),
            ("title", &self.title),
            ("description", &self.description),
            ("seen_url", &self.seen_url),
            ("seen_secret_env", &self.seen_secret_env),
        ];
        let lists = [("choices", &self.choices), ("quiet", &self.quiet), ("track", &self.track)];
        let counts = [
            ("max_items", &self.max_items),
            ("max_lines", &self.max_lines),
            ("max_events", &self.max_events),
            ("min_count", &self.min_count),
        ];
        let waits = self.delay.iter().map(|(category, raw)| (format!("delay.{category}"), checks.place_of(raw)));
        let titles = self.categories.iter().map(|(name, raw)| (format!("categories.{name}"), checks.place_of(raw)));
        let categories =
            self.category.iter().map(|(name, raw)| (format!("category.{name}"), raw.place(checks).unwrap_or_default()));
        let places = places(&texts, checks).chain(places(&lists, checks)).chain(places(&counts, checks));
        let places = places.chain(waits).chain(titles).chain(categories);
        places.map(|(name, place)| (name.clone(), Origin { key: format!("{table}.{name}"), place })).collect()
    }
}

/// The names of the values that there are, with their places.
fn places<'a, T>(
    values: &'a [(&'a str, &'a Option<Spanned<T>>)],
    checks: &'a Checks<'_>,
) -> impl Iterator<Item = (String, String)> + 'a {
    values.iter().filter_map(|(name, raw)| Some(((*name).to_owned(), checks.place_of(raw.as_ref()?))))
}
