//! Tera's filters whose result can be far larger than what they are given. These do the same, and make no text that a variable could not
//! hold.

use std::borrow::Cow;

use tera::{Kwargs, State, StringInput, Tera, TeraResult, Value};

use super::meter::{check_text, size};

/// Replaces Tera's own.
pub(super) fn register(tera: &mut Tera) {
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

/// The text, escaped where the result is not escaped any more. No text is empty.
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
