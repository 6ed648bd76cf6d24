//! Limits rendering work, memory and time, per thread.
//!
//! Tera has no interpreter hook, so [`insert_calls`] inserts calls to [`FUNCTION`] into a team's own
//! templates at load time. Each call updates the thread's meter.

use std::{
    cell::Cell,
    io::{self, Write},
    time::{Duration, Instant},
};

use tera::{Kwargs, State, TeraResult, Value};

use super::tag::{TeraCode, TeraCodeKind, code};
use crate::bidi;

pub(super) const FUNCTION: &str = "tidings_meter";
/// Work limit per message part: the source of a loop, block, component or included file on each run, and each
/// value written.
const WORK_BYTES: u64 = 64 * 1024 * 1024;
const ROUND_BYTES: u64 = 256;
/// Limit per variable, beyond the size of the data.
const VARIABLE_BYTES: u64 = 1024 * 1024;
/// Nesting limit for lists and maps. Payloads nest up to 32 levels.
const VARIABLE_DEPTH: u32 = 64;
const ELEMENT_BYTES: u64 = 16;
/// Time limit per message, including all attempts to shorten it.
const TIME: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RenderLimit {
    #[error(
        "exceeds the work limit of {} MiB: look for nested loops, and for components that include themselves",
        WORK_BYTES / 1024 / 1024
    )]
    Work,
    #[error("has a variable over the limit of data plus {} KiB: check what loops add to it", VARIABLE_BYTES / 1024)]
    Variable,
    #[error("exceeds the time limit of {} seconds: look for loops over long lists", TIME.as_secs())]
    Time,
}

impl From<RenderLimit> for tera::Error {
    fn from(limit: RenderLimit) -> Self {
        Self::message(limit.to_string())
    }
}

#[derive(Clone, Copy)]
struct RenderMeter {
    /// `None` if nothing is being rendered.
    until: Option<Instant>,
    worked: u64,
    /// Already escaped. Tera writes it without calling the escape hook.
    largest: u64,
    variable: u64,
    plain: bool,
    over: Option<RenderLimit>,
}

impl RenderMeter {
    const IDLE: Self = Self { until: None, worked: 0, largest: 0, variable: 0, plain: false, over: None };

    fn work(&mut self, bytes: u64) -> Result<(), RenderLimit> {
        self.worked = self.worked.saturating_add(bytes);
        if self.worked > WORK_BYTES { self.exceed_limit(RenderLimit::Work) } else { Ok(()) }
    }

    fn exceed_limit(&mut self, limit: RenderLimit) -> Result<(), RenderLimit> {
        self.over = Some(limit);
        Err(limit)
    }
}

thread_local! {
    static METER: Cell<RenderMeter> = const { Cell::new(RenderMeter::IDLE) };
}

struct MeterGuard(RenderMeter);

impl Drop for MeterGuard {
    fn drop(&mut self) {
        METER.set(self.0);
    }
}

fn update<T>(change: impl FnOnce(&mut RenderMeter) -> T) -> T {
    let mut meter = METER.get();
    let done = change(&mut meter);
    METER.set(meter);
    done
}

pub(super) fn with_time_limit<T>(render: impl FnOnce() -> T) -> T {
    let before = MeterGuard(METER.get());
    let until = before.0.until.unwrap_or_else(|| Instant::now() + TIME);
    METER.set(RenderMeter { until: Some(until), ..RenderMeter::IDLE });
    render()
}

/// Also returns the exceeded limit, if any.
pub(super) fn meter_part<T>(plain: bool, data: u64, render: impl FnOnce() -> T) -> (T, Option<RenderLimit>) {
    with_time_limit(|| {
        update(|meter| (meter.variable, meter.plain) = (VARIABLE_BYTES.saturating_add(data), plain));
        (render(), METER.get().over)
    })
}

/// Returns `true` if the value should be written unescaped, because the part is plain text.
pub(super) fn meter_value(value: &str) -> io::Result<bool> {
    update(|meter| {
        if meter.until.is_some() {
            meter.work(bytes(value)).map_err(io::Error::other)?;
        }
        Ok(meter.plain)
    })
}

/// Implements the inserted calls. `n` is the size of the source now running, `w` the number of values it
/// writes, and `v` the names of new variables.
pub(super) fn meter_call(kwargs: &Kwargs, state: &State) -> TeraResult<&'static str> {
    let (n, w) = (kwargs.get::<u64>("n")?.unwrap_or_default(), kwargs.get::<u64>("w")?.unwrap_or_default());
    let names = kwargs.get::<&str>("v")?.unwrap_or_default();
    update(|meter| {
        let copies = w.saturating_mul(meter.largest);
        meter.work(ROUND_BYTES.saturating_add(n).saturating_add(copies))?;
        if meter.until.is_some_and(|until| until < Instant::now()) {
            meter.exceed_limit(RenderLimit::Time)?;
        }
        for name in names.split(' ').filter(|name| !name.is_empty()) {
            let Some(value) = state.get::<Value>(name)? else { continue };
            let mut room = meter.variable;
            if !fits_into(&value, VARIABLE_DEPTH, &mut room) {
                meter.exceed_limit(RenderLimit::Variable)?;
            }
            let taken = meter.variable - room;
            if value.is_safe() {
                meter.largest = meter.largest.max(taken);
            }
            meter.work(taken)?;
        }
        Ok("")
    })
}

pub(super) fn check_text(bytes: u64) -> Result<(), RenderLimit> {
    update(|meter| {
        if bytes > meter.variable && meter.until.is_some() { meter.exceed_limit(RenderLimit::Variable) } else { Ok(()) }
    })
}

pub(super) fn size(value: &Value) -> u64 {
    let mut room = u64::MAX;
    fits_into(value, VARIABLE_DEPTH, &mut room);
    u64::MAX - room
}

/// Subtracts a value's size from `room`. `false` if it doesn't fit. A list contained several times counts
/// each time it would be written.
fn fits_into(value: &Value, depth: u32, room: &mut u64) -> bool {
    let own = ELEMENT_BYTES.saturating_add(value.as_str().map_or(0, bytes));
    let Some(left) = room.checked_sub(own).filter(|_| depth > 0) else { return false };
    *room = left;
    let name = |key: &tera::value::Key<'_>| key.as_str().map_or(0, bytes);
    match (value.as_array(), value.as_map()) {
        (Some(items), _) => items.iter().all(|item| fits_into(item, depth - 1, room)),
        (_, Some(map)) => map.iter().all(|(key, item)| {
            *room = room.saturating_sub(name(key));
            fits_into(item, depth - 1, room)
        }),
        _ => true,
    }
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

// Inserts meter calls into the source: at the start of each loop, block, component or file, and after each
// statement that sets a variable. Calls change neither line numbers nor the output.

const COMPREHENSION: &str = "a list comprehension is not available, because nothing bounds its length: write {% for %}";

/// May run repeatedly: a file, or the inside of a loop, block or component.
struct MeteredPart {
    end: &'static str,
    call: MeterCall,
    /// Bytes of its own source, and the number of values it writes, excluding nested parts.
    bytes: usize,
    writes: usize,
}

#[derive(Clone, Copy)]
struct MeterCall {
    at: usize,
    /// The tag before trims the white space after it. The call will do this instead.
    trims: bool,
}

/// # Errors
/// Position and problem of the first expression we cannot bound.
pub(super) fn insert_calls(source: &str) -> Result<String, (usize, &'static str)> {
    let mut calls: Vec<(MeterCall, String)> = Vec::new();
    let mut open = vec![MeteredPart { end: "", call: MeterCall { at: 0, trims: false }, bytes: 0, writes: 0 }];
    let (mut captures, mut counted, mut extends) = (Vec::new(), 0, false);
    for TeraCode { kind, place } in code_without_raw(source) {
        if kind == TeraCodeKind::Comment {
            continue;
        }
        let inside = source[place.start + 2..place.end - 2].trim_matches('-').trim();
        let (word, rest) = inside.split_at(inside.find(|c: char| !is_name(c)).unwrap_or(inside.len()));
        let is_name_of_something = |before| matches!(before, Some('.' | '(' | ','));
        if words(if word == "for" { rest } else { inside })
            .any(|(before, word)| word == "for" && !is_name_of_something(before))
        {
            return Err((place.start, COMPREHENSION));
        }
        let Some(part) = open.last_mut() else { continue };
        part.bytes += place.end - counted;
        counted = place.end;
        if kind == TeraCodeKind::Expression {
            part.writes += 1;
            continue;
        }
        let call = MeterCall { at: place.end, trims: source[..place.end - 2].ends_with('-') };
        let ends = match word {
            "for" => Some(("endfor", String::new())),
            "block" => Some(("endblock", String::new())),
            "component" => Some(("endcomponent", arguments(rest))),
            _ => None,
        };
        if let Some((end, names)) = ends {
            open.push(MeteredPart { end, call, bytes: 0, writes: 0 });
            calls.push((call, names));
        } else if part.end == word
            && open.len() > 1
            && let Some(part) = open.pop()
        {
            finish(&mut calls, &part);
        } else if word == "set" || word == "set_global" {
            let name = words(rest).next().map_or("", |(_, name)| name);
            if rest.trim_start().trim_start_matches(is_name).trim_start().starts_with('=') {
                calls.push((call, format!("v=\"{name}\"")));
            } else {
                captures.push(name);
            }
        } else if word == "endset"
            && let Some(name) = captures.pop()
        {
            calls.push((call, format!("v=\"{name}\"")));
        }
        extends |= word == "extends";
    }
    // A file that extends another has no output of its own.
    if !extends && let Some(mut file) = open.into_iter().next() {
        file.bytes += source.len() - counted;
        calls.push((file.call, String::new()));
        finish(&mut calls, &file);
    }
    calls.sort_by_key(|(call, _)| call.at);
    Ok(with_calls(source, &calls))
}

fn finish(
    calls: &mut [(MeterCall, String)],
    MeteredPart { call: MeterCall { at, .. }, bytes, writes, .. }: &MeteredPart,
) {
    if let Some((_, arguments)) = calls.iter_mut().find(|(call, _)| call.at == *at) {
        let gap = if arguments.is_empty() { "" } else { ", " };
        *arguments = format!("n={bytes}, w={writes}{gap}{arguments}");
    }
}

fn with_calls(source: &str, calls: &[(MeterCall, String)]) -> String {
    let mut with = String::with_capacity(source.len() + calls.len() * 40);
    let mut from = 0;
    for (MeterCall { at, trims }, arguments) in calls {
        let (before, end) = if *trims { (at - 3, "-}}") } else { (*at, "}}") };
        let tag_end = if *trims { "%}" } else { "" };
        with.extend([&source[from..before], tag_end, "{{ ", FUNCTION, "(", arguments, ") ", end]);
        from = *at;
    }
    with + &source[from..]
}

/// Treats everything between `raw` and `endraw` as text.
fn code_without_raw(source: &str) -> Vec<TeraCode> {
    let mut found = Vec::new();
    let mut from = 0;
    'source: loop {
        for TeraCode { kind, place } in code(&source[from..]) {
            let place = place.start + from..place.end + from;
            let is_raw = kind == TeraCodeKind::Statement
                && source[place.start + 2..place.end - 2].trim_matches('-').trim() == "raw";
            if !is_raw {
                found.push(TeraCode { kind, place });
            } else if let Some(end) = source[place.end..].find("endraw") {
                from = place.end + end;
                continue 'source;
            }
        }
        return found;
    }
}

fn arguments(head: &str) -> String {
    let given = words(head).filter(|(before, _)| matches!(before, Some('(' | ',' | '@' | '.'))).map(|(_, name)| name);
    format!("v=\"{}\"", given.chain(["body"]).collect::<Vec<_>>().join(" "))
}

fn words(code: &str) -> impl Iterator<Item = (Option<char>, &str)> {
    let (mut at, mut before, mut quote) = (0, None, None);
    std::iter::from_fn(move || {
        while let Some(c) = code[at..].chars().next() {
            let start = at;
            at += c.len_utf8();
            match quote {
                Some(open) if open == c => quote = None,
                None if is_name(c) => {
                    at += code[at..].find(|c| !is_name(c)).unwrap_or(code.len() - at);
                    return Some((before.replace('a'), &code[start..at]));
                }
                None if matches!(c, '"' | '\'' | '`') => (quote, before) = (Some(c), Some(c)),
                None if !c.is_whitespace() => before = Some(c),
                _ => {}
            }
        }
        None
    })
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Escapes every character that could end a text or a quoted attribute. Drops an isolate around the whole
/// value, because `dir="auto"` ignores isolated text. Plain text is only metered.
pub(super) fn escape(value: &str, out: &mut dyn Write) -> io::Result<()> {
    if meter_value(value)? {
        return out.write_all(value.as_bytes());
    }
    let value = bidi::whole_isolate(value).unwrap_or(value);
    // Most values need no escaping. The fold has no early exit, so the compiler can vectorise it.
    let special = |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'`');
    if !value.bytes().fold(false, |found, byte| found | special(byte)) {
        return out.write_all(value.as_bytes());
    }
    let mut start = 0;
    for (at, byte) in value.bytes().enumerate() {
        let escaped: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\'' => b"&#39;",
            b'`' => b"&#96;",
            _ => continue,
        };
        out.write_all(&value.as_bytes()[start..at])?;
        out.write_all(escaped)?;
        start = at + 1;
    }
    out.write_all(&value.as_bytes()[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_stand_where_something_repeats_and_where_a_variable_is_set() {
        for (source, expected) in [
            ("a", "{{ tidings_meter(n=1, w=0) }}a"),
            ("{% extends \"layout.html\" %}", "{% extends \"layout.html\" %}"),
            (
                "{% extends \"a\" %}{% block b %}x{{ y }}{% endblock %}",
                "{% extends \"a\" %}{% block b %}{{ tidings_meter(n=22, w=1) }}x{{ y }}{% endblock %}",
            ),
            (
                "{% for x in y -%} {{ x }}{% endfor %}",
                "{{ tidings_meter(n=17, w=0) }}{% for x in y %}{{ tidings_meter(n=20, w=1) -}} {{ x }}{% endfor %}",
            ),
            (
                "{% set s = s ~ s %}{% set t %}a{% endset %}",
                "{{ tidings_meter(n=43, w=0) }}{% set s = s ~ s %}{{ tidings_meter(v=\"s\") }}{% set t %}a{% endset %}\
                 {{ tidings_meter(v=\"t\") }}",
            ),
            (
                "{% component C(a, b: string = \"x, y\", @lang) %}{{ a }}{% endcomponent C %}",
                "{{ tidings_meter(n=47, w=0) }}{% component C(a, b: string = \"x, y\", @lang) %}\
                 {{ tidings_meter(n=27, w=1, v=\"a b lang body\") }}{{ a }}{% endcomponent C %}",
            ),
            (
                "{% raw %}{% for x in y %}{{ {% endraw %}{% set a = 1 %}",
                "{{ tidings_meter(n=55, w=0) }}{% raw %}{% for x in y %}{{ {% endraw %}{% set a = 1 %}{{ tidings_meter(v=\"a\") }}",
            ),
        ] {
            assert_eq!(insert_calls(source).unwrap(), expected);
        }
    }

    #[test]
    fn a_list_comprehension_is_refused_and_a_word_in_a_text_is_none() {
        assert_eq!(insert_calls("{{ [x for x in y] }}"), Err((0, COMPREHENSION)));
        assert_eq!(insert_calls("a{% set l = [x for x in y] %}"), Err((1, COMPREHENSION)));
        for right in ["{{ \"for you\" }}", "{% for x in y %}{% endfor %}", "{{ t(id=\"x\", for_whom=1) }}", "{# for #}"]
        {
            assert!(insert_calls(right).is_ok(), "{right}");
        }
    }
}
