//! What one rendering may take: work, memory and time, on the thread that renders.
//!
//! Tera has no hook in its interpreter. So [`metered`] puts calls of the function [`FUNCTION`] into a team's own
//! templates when they are loaded, and each call adds to the thread's meter.

use std::{
    cell::Cell,
    io::{self, Write},
    time::{Duration, Instant},
};

use tera::{Kwargs, State, TeraResult, Value};

use super::tag::{Code, Kind, code};
use crate::bidi;

/// The function that the inserted calls name.
pub(super) const FUNCTION: &str = "tidings_meter";
/// Limit of the work for one part of a message, in bytes: the source of a loop, a block, a component or an included file counts each time
/// that it runs, and so does each value that is written.
const WORK_BYTES: u64 = 64 * 1024 * 1024;
/// What each run of such a source counts besides.
const ROUND_BYTES: u64 = 256;
/// Limit of a variable in bytes, beyond the bytes of the data.
const VARIABLE_BYTES: u64 = 1024 * 1024;
/// Limit of lists and maps inside of each other. Those of a payload have 32 levels.
const VARIABLE_DEPTH: u32 = 64;
/// What an element of a list or a map counts besides its text.
const ELEMENT_BYTES: u64 = 16;
/// Limit of the time for one message, with all attempts to make it shorter.
const TIME: Duration = Duration::from_secs(5);

/// A limit that a template exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Limit {
    #[error(
        "takes more work than the limit of {} MiB: look for loops in loops, and for components that show themselves",
        WORK_BYTES / 1024 / 1024
    )]
    Work,
    #[error("makes a variable of more than {} KiB beyond the data, the limit: look at what a loop adds to it", VARIABLE_BYTES / 1024)]
    Variable,
    #[error("takes longer than the limit of {} seconds: look for loops over long lists", TIME.as_secs())]
    Time,
}

impl From<Limit> for tera::Error {
    fn from(limit: Limit) -> Self {
        Self::message(limit.to_string())
    }
}

#[derive(Clone, Copy)]
struct Meter {
    /// `None`: nothing is rendered.
    until: Option<Instant>,
    worked: u64,
    /// The largest text that needs no escaping any more. Tera writes it without asking.
    largest: u64,
    /// Limit of a variable.
    variable: u64,
    /// The part is plain text.
    plain: bool,
    over: Option<Limit>,
}

impl Meter {
    const IDLE: Self = Self { until: None, worked: 0, largest: 0, variable: 0, plain: false, over: None };

    fn work(&mut self, bytes: u64) -> Result<(), Limit> {
        self.worked = self.worked.saturating_add(bytes);
        if self.worked > WORK_BYTES { self.exceeds(Limit::Work) } else { Ok(()) }
    }

    fn exceeds(&mut self, limit: Limit) -> Result<(), Limit> {
        self.over = Some(limit);
        Err(limit)
    }
}

thread_local! {
    static METER: Cell<Meter> = const { Cell::new(Meter::IDLE) };
}

/// Puts the thread's meter back, also if rendering panics.
struct Before(Meter);

impl Drop for Before {
    fn drop(&mut self) {
        METER.set(self.0);
    }
}

fn update<T>(change: impl FnOnce(&mut Meter) -> T) -> T {
    let mut meter = METER.get();
    let done = change(&mut meter);
    METER.set(meter);
    done
}

/// Renders one message. Its parts share the time.
pub(super) fn timed<T>(render: impl FnOnce() -> T) -> T {
    let before = Before(METER.get());
    let until = before.0.until.unwrap_or_else(|| Instant::now() + TIME);
    METER.set(Meter { until: Some(until), ..Meter::IDLE });
    render()
}

/// Renders one part of a message of `data` bytes, and returns the limit that it exceeded, if it did.
pub(super) fn part<T>(plain: bool, data: u64, render: impl FnOnce() -> T) -> (T, Option<Limit>) {
    timed(|| {
        update(|meter| (meter.variable, meter.plain) = (VARIABLE_BYTES.saturating_add(data), plain));
        (render(), METER.get().over)
    })
}

/// Counts a value that is written. Returns whether it is written as it is, because the part is plain text.
pub(super) fn written(value: &str) -> io::Result<bool> {
    update(|meter| {
        if meter.until.is_some() {
            meter.work(bytes(value)).map_err(io::Error::other)?;
        }
        Ok(meter.plain)
    })
}

/// The function of the inserted calls. `n` is the source that runs now, in bytes, `w` the number of values that it writes, and `v`
/// has the names of variables that are new.
pub(super) fn call(kwargs: &Kwargs, state: &State) -> TeraResult<&'static str> {
    let (n, w) = (kwargs.get::<u64>("n")?.unwrap_or_default(), kwargs.get::<u64>("w")?.unwrap_or_default());
    let names = kwargs.get::<&str>("v")?.unwrap_or_default();
    update(|meter| {
        let copies = w.saturating_mul(meter.largest);
        meter.work(ROUND_BYTES.saturating_add(n).saturating_add(copies))?;
        if meter.until.is_some_and(|until| until < Instant::now()) {
            meter.exceeds(Limit::Time)?;
        }
        for name in names.split(' ').filter(|name| !name.is_empty()) {
            let Some(value) = state.get::<Value>(name)? else { continue };
            let mut room = meter.variable;
            if !fits(&value, VARIABLE_DEPTH, &mut room) {
                meter.exceeds(Limit::Variable)?;
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

/// Checks a text that a filter makes before it makes it.
pub(super) fn check_text(bytes: u64) -> Result<(), Limit> {
    update(
        |meter| if bytes > meter.variable && meter.until.is_some() { meter.exceeds(Limit::Variable) } else { Ok(()) },
    )
}

/// Returns the bytes of a value, as they count for the limit of a variable.
pub(super) fn size(value: &Value) -> u64 {
    let mut room = u64::MAX;
    fits(value, VARIABLE_DEPTH, &mut room);
    u64::MAX - room
}

/// Takes the bytes of a value from `room`. `false`: there is not enough. A list that is in itself many times counts each time, because it
/// would be written each time.
fn fits(value: &Value, depth: u32, room: &mut u64) -> bool {
    let own = ELEMENT_BYTES.saturating_add(value.as_str().map_or(0, bytes));
    let Some(left) = room.checked_sub(own).filter(|_| depth > 0) else { return false };
    *room = left;
    let name = |key: &tera::value::Key<'_>| key.as_str().map_or(0, bytes);
    match (value.as_array(), value.as_map()) {
        (Some(items), _) => items.iter().all(|item| fits(item, depth - 1, room)),
        (_, Some(map)) => map.iter().all(|(key, item)| {
            *room = room.saturating_sub(name(key));
            fits(item, depth - 1, room)
        }),
        _ => true,
    }
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

// Puts calls of the meter into the source of a team's own template: where a loop, a block, a component or a file begins,
// and behind each statement that sets a variable. No call changes the number of lines or the text that is written.

/// The problem of an expression whose length no call can bound.
const COMPREHENSION: &str = "a list comprehension is not available, because nothing bounds its length: write {% for %}";

/// What runs as often as something else says: a file, or the inside of a loop, a block or a component.
struct Part {
    /// The statement that ends it.
    end: &'static str,
    call: Call,
    /// Bytes of its own source, and values that it writes, apart from the parts in it.
    bytes: usize,
    writes: usize,
}

/// The place of a call.
#[derive(Clone, Copy)]
struct Call {
    at: usize,
    /// The tag before it removes the white space behind it. The call does that instead.
    trims: bool,
}

/// Returns the source with calls.
///
/// # Errors
/// Names the first expression that cannot be bounded by its place and its problem.
pub(super) fn metered(source: &str) -> Result<String, (usize, &'static str)> {
    let mut calls: Vec<(Call, String)> = Vec::new();
    let mut open = vec![Part { end: "", call: Call { at: 0, trims: false }, bytes: 0, writes: 0 }];
    let (mut captures, mut counted, mut extends) = (Vec::new(), 0, false);
    for Code { kind, place } in code_without_raw(source) {
        if kind == Kind::Comment {
            continue;
        }
        let inside = source[place.start + 2..place.end - 2].trim_matches('-').trim();
        let (word, rest) = inside.split_at(inside.find(|c: char| !is_name(c)).unwrap_or(inside.len()));
        // After these, `for` is the name of a field or of an argument.
        let is_name_of_something = |before| matches!(before, Some('.' | '(' | ','));
        if words(if word == "for" { rest } else { inside })
            .any(|(before, word)| word == "for" && !is_name_of_something(before))
        {
            return Err((place.start, COMPREHENSION));
        }
        let Some(part) = open.last_mut() else { continue };
        part.bytes += place.end - counted;
        counted = place.end;
        if kind == Kind::Expression {
            part.writes += 1;
            continue;
        }
        let call = Call { at: place.end, trims: source[..place.end - 2].ends_with('-') };
        let ends = match word {
            "for" => Some(("endfor", String::new())),
            "block" => Some(("endblock", String::new())),
            "component" => Some(("endcomponent", arguments(rest))),
            _ => None,
        };
        if let Some((end, names)) = ends {
            open.push(Part { end, call, bytes: 0, writes: 0 });
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
    // A file that extends another one has no text of its own.
    if !extends && let Some(mut file) = open.into_iter().next() {
        file.bytes += source.len() - counted;
        calls.push((file.call, String::new()));
        finish(&mut calls, &file);
    }
    calls.sort_by_key(|(call, _)| call.at);
    Ok(with_calls(source, &calls))
}

/// Adds to the call of a part what each run of it costs.
fn finish(calls: &mut [(Call, String)], Part { call: Call { at, .. }, bytes, writes, .. }: &Part) {
    if let Some((_, arguments)) = calls.iter_mut().find(|(call, _)| call.at == *at) {
        let gap = if arguments.is_empty() { "" } else { ", " };
        *arguments = format!("n={bytes}, w={writes}{gap}{arguments}");
    }
}

fn with_calls(source: &str, calls: &[(Call, String)]) -> String {
    let mut with = String::with_capacity(source.len() + calls.len() * 40);
    let mut from = 0;
    for (Call { at, trims }, arguments) in calls {
        let (before, end) = if *trims { (at - 3, "-}}") } else { (*at, "}}") };
        let tag_end = if *trims { "%}" } else { "" };
        with.extend([&source[from..before], tag_end, "{{ ", FUNCTION, "(", arguments, ") ", end]);
        from = *at;
    }
    with + &source[from..]
}

/// The code of a source. What stands between `raw` and `endraw` is text.
fn code_without_raw(source: &str) -> Vec<Code> {
    let mut found = Vec::new();
    let mut from = 0;
    'source: loop {
        for Code { kind, place } in code(&source[from..]) {
            let place = place.start + from..place.end + from;
            let is_raw =
                kind == Kind::Statement && source[place.start + 2..place.end - 2].trim_matches('-').trim() == "raw";
            if !is_raw {
                found.push(Code { kind, place });
            } else if let Some(end) = source[place.end..].find("endraw") {
                from = place.end + end;
                continue 'source;
            }
        }
        return found;
    }
}

/// The names that a component is given, as an argument of the call, and `body`.
fn arguments(head: &str) -> String {
    let given = words(head).filter(|(before, _)| matches!(before, Some('(' | ',' | '@' | '.'))).map(|(_, name)| name);
    format!("v=\"{}\"", given.chain(["body"]).collect::<Vec<_>>().join(" "))
}

/// The words of code outside of its strings, each with the character before it that is not a space.
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

/// Escapes each character that could end a text or an attribute with either quote. Drops an isolate around the
/// whole value, because `dir="auto"` of HTML ignores isolated text. Plain text is written as it is; it passes here to be counted.
pub(super) fn escape(value: &str, out: &mut dyn Write) -> io::Result<()> {
    if written(value)? {
        return out.write_all(value.as_bytes());
    }
    let value = bidi::whole_isolate(value).unwrap_or(value);
    // Most values have nothing to escape. The fold has no early exit, so that the compiler vectorises it.
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
            assert_eq!(metered(source).unwrap(), expected);
        }
    }

    #[test]
    fn a_list_comprehension_is_refused_and_a_word_in_a_text_is_none() {
        assert_eq!(metered("{{ [x for x in y] }}"), Err((0, COMPREHENSION)));
        assert_eq!(metered("a{% set l = [x for x in y] %}"), Err((1, COMPREHENSION)));
        for right in ["{{ \"for you\" }}", "{% for x in y %}{% endfor %}", "{{ t(id=\"x\", for_whom=1) }}", "{# for #}"]
        {
            assert!(metered(right).is_ok(), "{right}");
        }
    }
}
