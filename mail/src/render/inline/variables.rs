//! The texts that a variable of Tera may have, as far as the sources say them: `{% set level = "h3" if headed else "h2" %}`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    file::File,
    structure::{said, word},
};
use crate::render::code::Kind;

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The variables that templates set, by name.
#[derive(Default)]
pub(super) struct Variables<'s>(BTreeMap<&'s str, Texts>);

/// The texts of a variable in lower case. `None`: it may be anything.
type Texts = Option<BTreeSet<String>>;

impl<'s> Variables<'s> {
    /// Reads the statements of all files. A file may get a variable from one that includes it.
    pub fn of(files: &[File<'s>]) -> Self {
        let mut variables = Self::default();
        for file in files {
            for code in file.code.iter().filter(|code| code.kind == Kind::Statement) {
                let (statement, rest) = word(said(&file.source[code.place.clone()]));
                match statement {
                    "set" | "set_global" => {
                        let (name, value) = word(rest);
                        variables.add(name, value.strip_prefix('=').and_then(texts));
                    }
                    // The items of a loop and the arguments of a component may be anything.
                    "for" | "component" => rest.split(is_between).for_each(|name| variables.add(name, None)),
                    _ => {}
                }
            }
        }
        variables
    }

    /// The texts that `{{ name }}` may make. `None`: any text.
    pub fn texts(&self, name: &str) -> Option<&BTreeSet<String>> {
        self.0.get(name)?.as_ref()
    }

    fn add(&mut self, name: &'s str, texts: Texts) {
        let known = self.0.entry(name).or_insert_with(|| Some(BTreeSet::new()));
        *known = known.take().zip(texts).map(|(known, texts)| &known | &texts);
    }
}

fn is_between(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

/// The texts that an expression may have, if it is a word in quotes, or a choice between such words.
fn texts(expression: &str) -> Texts {
    let expression = expression.trim();
    let quote = expression.chars().next().filter(|c| QUOTES.contains(c))?;
    let (text, rest) = expression[1..].split_once(quote)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    let mut found = BTreeSet::from([text.to_ascii_lowercase()]);
    let rest = rest.trim();
    if !rest.is_empty() {
        found.extend(texts(after_else(rest.strip_prefix("if ")?)?)?);
    }
    Some(found)
}

/// The expression behind the first `else` that is not in quotes.
fn after_else(condition: &str) -> Option<&str> {
    let mut string = None;
    for (at, c) in condition.char_indices() {
        match string {
            Some(quote) if quote == c => string = None,
            None if QUOTES.contains(&c) => string = Some(c),
            None if condition[at..].starts_with(" else ") => return Some(&condition[at + " else ".len()..]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts_of(source: &str) -> Vec<(String, Option<Vec<String>>)> {
        let files = [File::new("a/body.html", source, true)];
        let read = Variables::of(&files);
        let texts = |texts: &Texts| texts.as_ref().map(|texts| texts.iter().cloned().collect());
        read.0.iter().map(|(name, known)| ((*name).to_owned(), texts(known))).collect()
    }

    #[test]
    fn a_variable_has_the_words_that_statements_give_it() {
        for (source, expected) in [
            ("{%- set a = 'H2' -%}{% if x %}{% set_global a=\"h3\" %}{% endif %}", Some(vec!["h2", "h3"])),
            ("{% set a = \"p\" if b == \" else \" else 'i' if c else `b` %}", Some(vec!["b", "i", "p"])),
            ("{% set a = \"h2 class=x\" %}", None),
            ("{% set a = \"\" %}", None),
            ("{% set a = \"h\" ~ n %}", None),
            ("{% set a = \"h2\" if (b if c else d) else e %}", None),
            ("{% set a = \"h2\" if b %}", None),
            ("{% set a = \"h2\" %}{% set a %}h3{% endset %}", None),
            ("{% set a = \"h2\" %}{% for b, a in c %}{% endfor %}", None),
            ("{% set a = \"h2\" %}{% component B(c=1, ...a) %}{% endcomponent B %}", None),
        ] {
            let found = texts_of(source).into_iter().find(|(name, _)| name == "a").unwrap().1;
            let expected = expected.map(|texts| texts.into_iter().map(str::to_owned).collect());
            assert_eq!(found, expected, "{source}");
        }
    }
}
