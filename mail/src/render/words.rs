//! Numbers and names as English text: the filters of templates, and the sentences of a line.

use std::borrow::Cow;

use tera::{Kwargs, State, Tera, TeraResult, Value};
use tidings_model::Cadence;

use super::clean;

/// Registers the filters of templates, and disables `safe`, because every value is escaped (rule 22).
pub(super) fn register(tera: &mut Tera) {
    tera.register_filter("number", |n: i128, _: Kwargs, _: &State| number(n));
    tera.register_filter("humanize", |name: &str, _: Kwargs, _: &State| humanize(name).into_owned());
    tera.register_filter("safe_url", |raw: &str, _: Kwargs, _: &State| {
        clean::url(raw).map_or_else(Value::none, Value::from)
    });
    tera.register_filter("counted", |noun: &str, kwargs: Kwargs, _: &State| -> TeraResult<String> {
        Ok(counted(noun, kwargs.must_get("n")?))
    });
    tera.register_filter("safe", |_: &Value, _: Kwargs, _: &State| -> TeraResult<Value> {
        Err(tera::Error::message("`safe` is not available: every value is escaped"))
    });
}

/// Formats a number with digits in groups of three: `1,204`.
pub(super) fn number(n: i128) -> String {
    if (0..1_000).contains(&n) {
        return n.to_string();
    }
    let digits = n.unsigned_abs().to_string();
    let mut out = if n < 0 { String::from("-") } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Turns `build_failure` into `build failure`.
pub(super) fn humanize(name: &str) -> Cow<'_, str> {
    if name.contains('_') { name.replace('_', " ").into() } else { name.into() }
}

/// Returns a number and a noun that agrees: `1 dependency`, `3 dependencies`.
pub(super) fn counted(noun: &str, n: i128) -> String {
    let noun = humanize(noun);
    let (stem, end) = if n == 1 { (&*noun, "") } else { plural(&noun) };
    format!("{} {stem}{end}", number(n))
}

/// A count and its name, which is an adjective or a plural: `2 critical`, `3 warnings`, `1 warning`.
pub(super) fn tally(name: &str, n: i128) -> String {
    let name = humanize(name);
    let is_plural = name.ends_with('s') && !["ss", "us", "is"].iter().any(|end| name.ends_with(end));
    let name = if n == 1 && is_plural { &name[..name.len() - 1] } else { &*name };
    format!("{} {name}", number(n))
}

/// Returns the stem of a noun and the ending of its plural.
fn plural(noun: &str) -> (&str, &'static str) {
    let before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    if let Some(stem) = before_y {
        (stem, "ies")
    } else if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) {
        (noun, "es")
    } else if noun.ends_with(|c: char| c.is_ascii_alphabetic()) {
        (noun, "s")
    } else {
        (noun, "")
    }
}

/// Names the actors: `Ann`, `Ann and Ben`, `Ann and 3 others`. Empty without actors.
pub(super) fn who(actors: &[Cow<'_, str>], actor_count: u64) -> String {
    match (actors, actor_count) {
        ([], _) => String::new(),
        ([one, ..], 0 | 1) => one.to_string(),
        ([one, two, ..], 2) => format!("{one} and {two}"),
        ([one, ..], n) => format!("{one} and {}", counted("other", i128::from(n) - 1)),
    }
}

/// Describes a cadence of `tidings.toml` in one phrase for a recipient. Empty if that takes more than a phrase.
pub(super) fn how_often(cadence: &str) -> String {
    match cadence.parse() {
        Ok(Cadence::Instant) => "at once when something happens".into(),
        Ok(Cadence::After(_)) => "shortly after something happens".into(),
        Ok(Cadence::Cron(_) | Cadence::Never) | Err(_) => String::new(),
        Ok(calendar) => format!("{} when there is something new", calendar.explain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_agrees_with_its_number() {
        let table = [
            ("change", 1, "1 change"),
            ("change", 0, "0 changes"),
            ("dependency", 3, "3 dependencies"),
            ("other key", 2, "2 other keys"),
            ("build_failure", 1_204, "1,204 build failures"),
            ("patch", 1_000_000, "1,000,000 patches"),
            ("変更", 2, "2 変更"),
        ];
        for (noun, n, expected) in table {
            assert_eq!(counted(noun, n), expected);
        }
    }

    #[test]
    fn a_count_keeps_an_adjective_and_agrees_with_a_plural() {
        let table = [("critical", 2, "2 critical"), ("warnings", 1, "1 warning"), ("warnings", 4, "4 warnings")];
        for (name, n, expected) in table {
            assert_eq!(tally(name, n), expected);
        }
    }

    #[test]
    fn the_others_are_everybody_but_the_one_named() {
        let actors = ["Ann".into(), "Ben".into(), "Cy".into()];
        assert_eq!(who(&[], 0), "");
        assert_eq!(who(&actors[..1], 1), "Ann");
        assert_eq!(who(&actors[..2], 2), "Ann and Ben");
        assert_eq!(who(&actors, 3), "Ann and 2 others");
        assert_eq!(who(&actors, 1_200), "Ann and 1,199 others");
    }

    #[test]
    fn a_cadence_reads_as_a_recipient_would_say_it() {
        assert_eq!(how_often("daily 08:00"), "every day at 08:00 when there is something new");
        assert_eq!(how_often("weekly mon 08:00"), "every Monday at 08:00 when there is something new");
        assert_eq!(how_often("weekdays 08:00"), "Monday to Friday at 08:00 when there is something new");
        assert_eq!(how_often("hourly"), "every hour when there is something new");
        assert_eq!(how_often("hourly at :30"), "every hour at :30 when there is something new");
        assert_eq!(how_often("after 5m"), "shortly after something happens");
        assert_eq!(how_often("cron 0 9,17 * * mon-fri"), "");
        assert_eq!(how_often("never"), "");
    }
}
