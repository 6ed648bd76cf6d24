//! Template functions and filters, in the language of the variable `lang`.

use std::{borrow::Cow, sync::Arc};

use fluent_bundle::FluentValue;
use tera::{Kwargs, State, StringInput, Tera, TeraResult, Value};

use super::{
    clean,
    meter::{self, check_text, size},
    words,
};
use crate::words::{ENGLISH, LocalizedWords, Phrases};

/// Disables `safe`, because we escape every value (rule 22).
pub(super) fn register(tera: &mut Tera, catalogue: &Arc<LocalizedWords>) {
    register_bounded(tera);
    tera.register_function(meter::FUNCTION, |kwargs: Kwargs, state: &State| meter::meter_call(&kwargs, state));
    let words = catalogue.clone();
    tera.register_function("t", move |kwargs: Kwargs, state: &State| {
        format_message(recipient_phrases(&words, state), &kwargs)
    });
    let words = catalogue.clone();
    tera.register_filter("number", move |n: &Value, kwargs: Kwargs, state: &State| -> TeraResult<String> {
        number(recipient_phrases(&words, state), n, kwargs.get("unit")?.unwrap_or_default())
    });
    let words = catalogue.clone();
    tera.register_filter("list", move |items: Vec<Value>, kwargs: Kwargs, state: &State| -> TeraResult<String> {
        list(recipient_phrases(&words, state), &items, kwargs.get("attribute")?)
    });
    let words = catalogue.clone();
    tera.register_filter("counted", move |noun: &str, kwargs: Kwargs, state: &State| -> TeraResult<String> {
        Ok(words::counted_noun(recipient_phrases(&words, state), noun, kwargs.must_get("n")?))
    });
    tera.register_filter("humanize", |name: &str, _: Kwargs, _: &State| words::humanize(name).into_owned());
    tera.register_filter("sparkline", |series: &Value, _: Kwargs, _: &State| sparkline(series));
    tera.register_filter("heights", |series: &Value, kwargs: Kwargs, _: &State| -> TeraResult<Vec<Value>> {
        Ok(heights(series, kwargs.must_get("most")?))
    });
    tera.register_filter("percent_from", |now: &Value, kwargs: Kwargs, _: &State| -> TeraResult<Value> {
        Ok(percent(now, kwargs.must_get("before")?).map_or_else(Value::none, Value::from))
    });
    tera.register_filter("safe_url", |raw: &str, _: Kwargs, _: &State| {
        clean::clean_url(raw).map_or_else(Value::none, Value::from)
    });
    tera.register_filter("safe", |_: &Value, _: Kwargs, _: &State| -> TeraResult<Value> {
        Err(tera::Error::message("`safe` is not available: every value is escaped"))
    });
}

/// Includes the tenant's overrides. A component has no access to variables, so it gets English.
fn recipient_phrases<'a>(words: &'a LocalizedWords, state: &State) -> Phrases<'a> {
    let variable = |name: &str| state.get::<Value>(name).ok().flatten();
    let lang = variable("lang");
    let lang = lang.as_ref().and_then(Value::as_str).unwrap_or(ENGLISH);
    match words.tenants().next().and_then(|_| variable("tenant")) {
        Some(tenant) => words.choose_for(tenant.as_str().unwrap_or_default(), [lang]),
        None => words.choose([lang]),
    }
}

fn format_message(phrases: Phrases<'_>, kwargs: &Kwargs) -> TeraResult<String> {
    let id: &str = kwargs.must_get("id")?;
    if let Some(said) = only_count(kwargs).and_then(|count| phrases.counted_message(id, count)) {
        return Ok(said);
    }
    let given = kwargs.iter().filter_map(|(name, value)| Some((name.as_str()?, value)));
    let variables = given.filter(|(name, _)| *name != "id").map(|(name, value)| (name, variable(value)));
    let problem = || if phrases.has(id) { "needs other variables" } else { "is in no file of words" };
    phrases.find(id, variables).ok_or_else(|| tera::Error::message(format!("the message `{id}` {}", problem())))
}

/// `None` unless it is a whole number and the only variable.
fn only_count(kwargs: &Kwargs) -> Option<i128> {
    let mut variables = kwargs.iter().filter(|(name, _)| name.as_str() != Some("id"));
    let (name, value) = variables.next()?;
    let is_only = name.as_str() == Some("count") && variables.next().is_none();
    value.as_u64().filter(|_| is_only).map(i128::from)
}

/// Joins number and unit with a no-break space.
fn number(phrases: Phrases<'_>, n: &Value, unit: &str) -> TeraResult<String> {
    if !n.is_number() {
        return Err(tera::Error::message("`number` needs a number"));
    }
    let written = phrases.decimal(&n.to_string());
    Ok(if unit.is_empty() { written } else { format!("{written}\u{a0}{unit}") })
}

fn list(phrases: Phrases<'_>, items: &[Value], attribute: Option<&str>) -> TeraResult<String> {
    let item = |value: &Value| {
        let value = match attribute {
            Some(name) => value.get_from_path(name),
            None => Some(value),
        };
        value.map(Value::to_string).ok_or_else(|| tera::Error::message("an item of the list lacks the attribute"))
    };
    let items: Vec<_> = items.iter().map(item).collect::<TeraResult<_>>()?;
    Ok(phrases.short_list(&items.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn variable(value: &Value) -> FluentValue<'_> {
    match value.as_str() {
        Some(text) => text.into(),
        None => value.as_f64().map_or_else(|| value.to_string().into(), FluentValue::from),
    }
}

/// Tera's own filters could produce a result much larger than their input. Ours respect the limit for
/// variables.
fn register_bounded(tera: &mut Tera) {
    tera.register_filter("str", |value: &Value, _: Kwargs, _: &State| -> TeraResult<String> {
        check_text(size(value))?;
        Ok(value.to_string())
    });
    tera.register_filter("split", |text: &str, kwargs: Kwargs, _: &State| -> TeraResult<Vec<Value>> {
        check_text(count(text.len()))?;
        Ok(text.split(kwargs.must_get::<&str>("pat")?).map(Value::from).collect())
    });
    tera.register_filter("join", join);
    tera.register_filter("replace", replace);
    tera.register_filter("indent", indent);
}

fn join(items: &[Value], kwargs: Kwargs, state: &State) -> TeraResult<Value> {
    let between = kwargs.get::<StringInput>("sep")?;
    let room = count(items.len()).saturating_mul(between.as_ref().map_or(0, |text| count(text.as_str().len())));
    check_text(items.iter().map(size).fold(room, u64::saturating_add))?;
    let is_safe = |item: &Value| item.is_string() && item.is_safe();
    let safe = state.autoescaping_enabled()
        && (items.iter().any(is_safe) || between.as_ref().is_some_and(|text| text.is_safe()));
    let written = |item: &Value| match (item.is_undefined(), safe) {
        (true, _) => Ok(String::new()),
        (false, true) => state.escape_if_needed(item),
        (false, false) => Ok(item.to_string()),
    };
    let written = items.iter().map(written).collect::<TeraResult<Vec<_>>>()?;
    Ok(text(safe, &written.join(&plain_or_escaped(between.as_ref(), safe, state)?)))
}

fn replace(value: StringInput, kwargs: Kwargs, state: &State) -> TeraResult<Value> {
    let (from, to) = (kwargs.must_get::<&str>("from")?, kwargs.must_get::<StringInput>("to")?);
    let safe = state.autoescaping_enabled() && (value.is_safe() || to.is_safe());
    let (value, to) = (plain_or_escaped(Some(&value), safe, state)?, plain_or_escaped(Some(&to), safe, state)?);
    let added = count(value.matches(from).count()).saturating_mul(count(to.len()));
    check_text(count(value.len()).saturating_add(added))?;
    Ok(text(safe, &value.replace(from, &to)))
}

fn indent(value: StringInput, kwargs: Kwargs, state: &State) -> TeraResult<Value> {
    let width = kwargs.get::<usize>("width")?.unwrap_or(4).min(1000);
    let sign = kwargs.get::<StringInput>("indentation")?;
    let [first, blank] = [kwargs.get("first")?.unwrap_or(false), kwargs.get("blank")?.unwrap_or(false)];
    if sign.as_ref().is_some_and(|sign| sign.as_str().chars().count() != 1) {
        return Err(tera::Error::message("The `indentation` argument must contain exactly one character"));
    }
    let safe = state.autoescaping_enabled() && (value.is_safe() || sign.as_ref().is_some_and(|sign| sign.is_safe()));
    let indent = match &sign {
        Some(_) => plain_or_escaped(sign.as_ref(), safe, state)?.repeat(width),
        None => " ".repeat(width),
    };
    let value = plain_or_escaped(Some(&value), safe, state)?;
    check_text(count(value.lines().count()).saturating_mul(count(indent.len())).saturating_add(count(value.len())))?;
    let mut indented = String::with_capacity(value.len());
    for (at, line) in value.lines().enumerate() {
        indented.push_str(if at > 0 { "\n" } else { "" });
        if (at == 0 && first) || (at > 0 && (blank || !line.is_empty())) {
            indented.push_str(&indent);
        }
        indented.push_str(line);
    }
    if value.ends_with('\n') {
        indented.push('\n');
    }
    Ok(text(safe, &indented))
}

/// Escapes the argument if the result will not be escaped later.
fn plain_or_escaped<'v>(value: Option<&'v StringInput<'v>>, safe: bool, state: &State) -> TeraResult<Cow<'v, str>> {
    match value {
        Some(value) if safe => value.rendered(state),
        value => Ok(value.map_or("", |value| value.as_str()).into()),
    }
}

fn text(safe: bool, text: &str) -> Value {
    if safe { Value::safe_string(text) } else { Value::from(text) }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Drops earlier points.
const NUMBERS: usize = 12;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn sparkline(series: &Value) -> String {
    scale_levels(series, BLOCKS.len()).into_iter().filter_map(|level| BLOCKS.get(level - 1)).collect()
}

/// 1 for the lowest, `most` for the highest.
fn heights(series: &Value, most: usize) -> Vec<Value> {
    scale_levels(series, most).into_iter().map(|level| Value::from_serializable(&level)).collect()
}

/// Change from `before` to `now` in whole percent. `None` if either is no number, or `before` is zero.
fn percent(now: &Value, before: &Value) -> Option<i64> {
    let (now, before) = (now.as_f64()?, before.as_f64().filter(|before| *before != 0.0)?);
    round_whole((now - before) / before.abs() * 100.0)
}

/// Scales the latest numbers to 1..=`most`; equal numbers get the middle.
fn scale_levels(series: &Value, most: usize) -> Vec<usize> {
    let numbers: Vec<f64> = series.as_array().unwrap_or_default().iter().filter_map(Value::as_f64).collect();
    let numbers = &numbers[numbers.len().saturating_sub(NUMBERS)..];
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let range = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let steps = f64::from(u32::try_from(most.saturating_sub(1)).unwrap_or(u32::MAX));
    let share = |number: f64| if range > 0.0 { (number - least) / range } else { 0.5 };
    let level = |number: &f64| round_whole(share(*number) * steps).and_then(|step| usize::try_from(step).ok());
    numbers.iter().map(|number| 1 + level(number).unwrap_or_default()).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn round_whole(number: f64) -> Option<i64> {
    (number.abs() < 1e15).then(|| number.round() as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(json: &serde_json::Value) -> Value {
        Value::from_serializable(json)
    }

    #[test]
    fn a_sparkline_reaches_from_the_lowest_block_to_the_highest() {
        for (series, drawn) in [
            (json!([1, 2, 3, 4, 5, 6, 7, 8]), "▁▂▃▄▅▆▇█"),
            (json!([-4.5, 0, 4.5]), "▁▅█"),
            (json!([3, 3]), "▅▅"),
            (json!([0, "x", null, 9]), "▁█"),
            (json!([9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "▁▁▁▁▁▁▁▁▁▁▁█"),
            (json!([]), ""),
            (json!("12"), ""),
        ] {
            assert_eq!(sparkline(&value(&series)), drawn, "{series}");
        }
    }

    #[test]
    fn heights_are_within_their_limit() {
        let heights = |series| heights(&value(&series), 36).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(heights(json!([0, 50, 100])), ["1", "19", "36"]);
        assert_eq!(heights(json!([7])), ["19"]);
        assert_eq!(heights(json!([0, 1e300])), ["1", "36"]);
    }

    #[test]
    fn a_change_is_in_per_cent_of_what_was_before() {
        for (now, before, change) in [
            (json!(1_204), json!(1_071), Some(12)),
            (json!(1), json!(4), Some(-75)),
            (json!(5), json!(-10), Some(150)),
            (json!(5), json!(0), None),
            (json!(5), json!(""), None),
            (json!(1e300), json!(1), None),
        ] {
            assert_eq!(percent(&value(&now), &value(&before)), change, "{now} {before}");
        }
    }
}
