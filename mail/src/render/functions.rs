//! The functions and filters of templates. They speak the language of the variable `lang`.

use std::sync::Arc;

use fluent_bundle::FluentValue;
use tera::{Kwargs, State, Tera, TeraResult, Value};

use super::{chart, clean, filters, meter, words};
use crate::words::{ENGLISH, Phrases, Words};

/// Registers functions and filters, and disables `safe`, because every value is escaped (rule 22).
pub(super) fn register(tera: &mut Tera, catalogue: &Arc<Words>) {
    filters::register(tera);
    tera.register_function(meter::FUNCTION, |kwargs: Kwargs, state: &State| meter::call(&kwargs, state));
    let words = catalogue.clone();
    tera.register_function("t", move |kwargs: Kwargs, state: &State| said(spoken(&words, state), &kwargs));
    let words = catalogue.clone();
    tera.register_filter("number", move |n: &Value, kwargs: Kwargs, state: &State| -> TeraResult<String> {
        number(spoken(&words, state), n, kwargs.get("unit")?.unwrap_or_default())
    });
    let words = catalogue.clone();
    tera.register_filter("list", move |items: Vec<Value>, kwargs: Kwargs, state: &State| -> TeraResult<String> {
        list(spoken(&words, state), &items, kwargs.get("attribute")?)
    });
    let words = catalogue.clone();
    tera.register_filter("counted", move |noun: &str, kwargs: Kwargs, state: &State| -> TeraResult<String> {
        Ok(words::counted(spoken(&words, state), noun, kwargs.must_get("n")?))
    });
    tera.register_filter("humanize", |name: &str, _: Kwargs, _: &State| words::humanize(name).into_owned());
    tera.register_filter("sparkline", |series: &Value, _: Kwargs, _: &State| chart::sparkline(series));
    tera.register_filter("heights", |series: &Value, kwargs: Kwargs, _: &State| -> TeraResult<Vec<Value>> {
        Ok(chart::heights(series, kwargs.must_get("most")?))
    });
    tera.register_filter("percent_from", |now: &Value, kwargs: Kwargs, _: &State| -> TeraResult<Value> {
        Ok(chart::percent(now, kwargs.must_get("before")?).map_or_else(Value::none, Value::from))
    });
    tera.register_filter("safe_url", |raw: &str, _: Kwargs, _: &State| {
        clean::url(raw).map_or_else(Value::none, Value::from)
    });
    tera.register_filter("safe", |_: &Value, _: Kwargs, _: &State| -> TeraResult<Value> {
        Err(tera::Error::message("`safe` is not available: every value is escaped"))
    });
}

/// The words of the recipient, as the tenant says them. A component sees no variables, and speaks English.
fn spoken<'a>(words: &'a Words, state: &State) -> Phrases<'a> {
    let variable = |name: &str| state.get::<Value>(name).ok().flatten();
    let lang = variable("lang");
    let lang = lang.as_ref().and_then(Value::as_str).unwrap_or(ENGLISH);
    match words.tenants().next().and_then(|_| variable("tenant")) {
        Some(tenant) => words.choose_for(tenant.as_str().unwrap_or_default(), [lang]),
        None => words.choose([lang]),
    }
}

/// Says the message `id` with the other arguments as its variables.
fn said(phrases: Phrases<'_>, kwargs: &Kwargs) -> TeraResult<String> {
    let id: &str = kwargs.must_get("id")?;
    if let Some(said) = only_count(kwargs).and_then(|count| phrases.counted(id, count)) {
        return Ok(said);
    }
    let given = kwargs.iter().filter_map(|(name, value)| Some((name.as_str()?, value)));
    let variables = given.filter(|(name, _)| *name != "id").map(|(name, value)| (name, variable(value)));
    let problem = || if phrases.has(id) { "needs other variables" } else { "is in no file of words" };
    phrases.find(id, variables).ok_or_else(|| tera::Error::message(format!("the message `{id}` {}", problem())))
}

/// The count, if it is the only variable and a whole number.
fn only_count(kwargs: &Kwargs) -> Option<i128> {
    let mut variables = kwargs.iter().filter(|(name, _)| name.as_str() != Some("id"));
    let (name, value) = variables.next()?;
    let is_only = name.as_str() == Some("count") && variables.next().is_none();
    value.as_u64().filter(|_| is_only).map(i128::from)
}

/// Writes a number with its unit, which stays on the number's line.
fn number(phrases: Phrases<'_>, n: &Value, unit: &str) -> TeraResult<String> {
    if !n.is_number() {
        return Err(tera::Error::message("`number` needs a number"));
    }
    let written = phrases.decimal(&n.to_string());
    Ok(if unit.is_empty() { written } else { format!("{written}\u{a0}{unit}") })
}

/// Joins values, or one attribute of each.
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
