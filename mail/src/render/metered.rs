//! Puts calls of the [meter](super::meter) into the source of a team's own template: where a loop, a block, a component or a file begins,
//! and behind each statement that sets a variable. No call changes the number of lines or the text that is written.

use super::{
    code::{Code, Kind, code},
    meter::FUNCTION,
};

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
