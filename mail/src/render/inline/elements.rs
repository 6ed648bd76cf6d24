//! The elements of a file, with what they are for selectors.

use std::ops::Range;

use super::{
    file::File,
    selector::{ANY, Feature},
    structure::said,
    variables::Variables,
};
use crate::render::{
    code::Kind,
    html::VOID,
    tag::{Attribute, Mark, Tag, marks},
};

/// An element.
pub(super) struct Element {
    /// The number of its file.
    pub file: usize,
    /// The name as written, without code.
    pub name: String,
    /// The byte at which its tag begins.
    pub at: usize,
    /// The byte after its name.
    pub after_name: usize,
    /// The value of `style`, and the quote around it.
    pub style: Option<(Range<usize>, Option<char>)>,
    pub features: Vec<Feature>,
    /// Features that code may make. A `\0` stands for any text.
    pub patterns: Vec<Feature>,
    /// Code may give it any attribute, or takes one away.
    pub is_open: bool,
    /// It has a box that can be styled.
    pub is_shown: bool,
}

/// A step through the elements of a file.
pub(super) enum Step {
    /// The element of this number begins.
    Open(usize),
    /// The element of this number begins, and has nothing inside.
    Void(usize),
    /// An element of this name ends.
    Close(String),
}

/// Elements that are not shown.
const HIDDEN: [&str; 7] = ["base", "head", "link", "meta", "script", "style", "title"];

/// Adds the elements of a file to those of others, and returns the way through them.
pub(super) fn elements(
    number: usize,
    file: &File<'_>,
    variables: &Variables<'_>,
    found: &mut Vec<Element>,
) -> Vec<Step> {
    let step = |mark| match mark {
        Mark::Start(tag) => {
            found.push(element(number, file, variables, &tag));
            let is_void = VOID.iter().any(|void| tag.is(void));
            let at = found.len() - 1;
            if is_void { Step::Void(at) } else { Step::Open(at) }
        }
        Mark::End { name, .. } => Step::Close(name.to_ascii_lowercase()),
    };
    marks(&file.blank).into_iter().map(step).collect()
}

fn element(number: usize, file: &File<'_>, variables: &Variables<'_>, tag: &Tag<'_>) -> Element {
    let name_start = tag.place.start + 1;
    let after_name = name_start + tag.name.len();
    let name = tag.name.to_ascii_lowercase();
    let (mut features, mut patterns) = (Vec::new(), Vec::new());
    if file.code_in(name_start, after_name).next().is_none() {
        features.push(Feature::Type(name.clone()));
    } else {
        patterns.extend(names(file, variables, &(name_start..after_name)).into_iter().map(Feature::Type));
    }
    for (attribute, feature) in
        [("class", Feature::Class as fn(String) -> Feature), ("id", Feature::Id as fn(String) -> Feature)]
    {
        for (word, is_sure) in tag.attribute(attribute).into_iter().flat_map(|attribute| words(file, attribute)) {
            let list = if is_sure { &mut features } else { &mut patterns };
            list.push(feature(word));
        }
    }
    let in_value = |place: &Range<usize>| {
        tag.attributes.iter().any(|attribute| attribute.value.start <= place.start && place.end <= attribute.value.end)
    };
    let is_open =
        file.code_in(after_name, tag.place.end).any(|code| code.kind != Kind::Comment && !in_value(&code.place));
    if is_open {
        patterns.extend([Feature::Class("\0".into()), Feature::Id("\0".into())]);
    }
    Element {
        file: number,
        at: tag.place.start,
        after_name,
        style: tag.attribute("style").map(|style| (style.value.clone(), style.quote)),
        is_shown: !HIDDEN.contains(&name.as_str()),
        name,
        features,
        patterns,
        is_open,
    }
}

/// The names that code may give to an element, as patterns.
fn names(file: &File<'_>, variables: &Variables<'_>, place: &Range<usize>) -> Vec<String> {
    let code: Vec<_> = file.code_in(place.start, place.end).collect();
    if let [one] = code[..]
        && one.place == *place
        && let Some(texts) = variables.texts(said(&file.source[place.clone()]))
    {
        return texts.iter().cloned().collect();
    }
    if code.iter().any(|code| code.kind != Kind::Expression) {
        return vec!["\0".to_owned()];
    }
    let mut pattern = String::new();
    let mut from = place.start;
    for code in code {
        pattern.push_str(&file.source[from..code.place.start]);
        pattern.push('\0');
        from = code.place.end;
    }
    pattern.push_str(&file.source[from..place.end]);
    vec![pattern.to_ascii_lowercase()]
}

/// The words of an attribute. A word is sure if it is always there and has no code.
fn words(file: &File<'_>, attribute: &Attribute<'_>) -> Vec<(String, bool)> {
    let value = attribute.value.clone();
    let mut text = String::new();
    let mut from = value.start;
    // Between the first and the last statement, a word may be missing.
    let (mut first, mut last) = (usize::MAX, 0);
    for code in file.code_in(value.start, value.end) {
        text.push_str(&file.source[from..code.place.start]);
        if code.kind == Kind::Statement {
            first = first.min(text.len());
            last = text.len();
        }
        text.push('\0');
        from = code.place.end;
    }
    text.push_str(&file.source[from..value.end]);
    let place = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    let words = text.split_ascii_whitespace();
    words
        .map(|word| {
            let conditional = first < place(word) && place(word) < last;
            (word.to_owned(), !conditional && !word.contains('\0'))
        })
        .collect()
}

impl Feature {
    /// Reports if code may make this feature of a pattern.
    pub(super) fn fits(&self, pattern: &Self) -> bool {
        match (self, pattern) {
            (Self::Type(name), Self::Type(pattern))
            | (Self::Class(name), Self::Class(pattern))
            | (Self::Id(name), Self::Id(pattern)) => name != ANY && fits(name, pattern),
            _ => false,
        }
    }
}

fn fits(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('\0') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<_> = rest.split('\0').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = name.split_once(part) else { return false };
        name = after;
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<Element> {
        let mut found = Vec::new();
        let files = [File::new("a/body.html", source, true)];
        elements(0, &files[0], &Variables::of(&files), &mut found);
        found
    }

    #[test]
    fn an_element_has_features_of_its_source_and_patterns_of_its_code() {
        let class = |name: &str| Feature::Class(name.into());
        let found = read("<TD class=\"a b-{{ c }} {% if d %}e{% else %} f {% endif %} g\" id=h style='top:0'>");
        let element = &found[0];
        assert_eq!(element.features, [Feature::Type("td".into()), class("a"), class("g"), Feature::Id("h".into())]);
        assert_eq!(element.patterns, [class("b-\0"), class("\0e\0"), class("f"), class("\0")]);
        assert!(!element.is_open && element.is_shown);
        assert_eq!(element.style, Some((74..79, Some('\''))));
    }

    #[test]
    fn code_between_attributes_leaves_an_element_open() {
        let found =
            read("<{{ level }} class=a><p {% if b %}class=c{% endif %}><p {{ d }}><p title='{{ e }}'><p {# f #}>");
        assert_eq!(found.iter().map(|element| element.is_open).collect::<Vec<_>>(), [false, true, true, false, false]);
        assert_eq!(found[0].patterns, [Feature::Type("\0".into())]);
    }

    #[test]
    fn code_gives_an_element_the_names_that_its_source_has() {
        let types = |names: &[&str]| names.iter().map(|name| Feature::Type((*name).into())).collect::<Vec<_>>();
        let set = "{% set level = \"h3\" if a else \"h2\" %}";
        for (source, names) in [
            ("<{{ level }} class=a>", vec!["h2", "h3"]),
            ("<{{ level | lower }}>", vec!["\0"]),
            ("<H{{ level }}>", vec!["h\0"]),
            ("<{{ other }}>", vec!["\0"]),
            ("<{% if a %}h2{% else %}h3{% endif %}>", vec!["\0"]),
        ] {
            assert_eq!(read(&format!("{set}{source}"))[0].patterns[..names.len()], types(&names), "{source}");
        }
    }

    #[test]
    fn a_pattern_has_its_fixed_parts_in_order() {
        for (name, pattern, expected) in [
            ("chip-bad", "chip-\0", true),
            ("chip", "chip-\0", false),
            ("a-b-c", "a\0b\0c", true),
            ("a-c-b", "a\0b\0c", false),
            ("x", "\0", true),
            ("x", "x", true),
            ("xy", "x", false),
        ] {
            assert_eq!(fits(name, pattern), expected, "{name} {pattern:?}");
        }
    }
}
