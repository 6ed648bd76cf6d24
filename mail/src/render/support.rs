//! Finds what large mail clients do not support of a template, by Can I email's data.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::LazyLock,
};

use serde::Deserialize;

use super::{
    css,
    tag::{Tag, blank, code, tags},
};

/// A place of a source, and what its author should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    /// The byte.
    pub at: usize,
    pub text: String,
}

/// The features that at least one client lacks. `mail/support/generate.py` makes the file.
static DATA: LazyLock<Data> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../support/support.json"))
        .unwrap_or_else(|error| panic!("support.json: {error}"))
});

#[derive(Deserialize)]
struct Data {
    clients: Vec<String>,
    features: Vec<Feature>,
}

/// Something in HTML or CSS.
#[derive(Deserialize)]
struct Feature {
    /// The last part of its address at Can I email.
    slug: String,
    kind: Kind,
    names: Vec<String>,
    /// Places in the list of clients.
    unsupported: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Property,
    /// A property with one value, `display:flex`.
    Value,
    Function,
    Unit,
    Pseudo,
    AtRule,
    /// A feature of `@media`.
    Media,
    Element,
    Attribute,
}

/// Finds what some clients do not support, each once, in the order of its first place.
pub(super) fn unsupported(source: &str) -> Vec<Remark> {
    let blank = blank(source, &code(source));
    let mut found = Found::default();
    for tag in tags(&blank) {
        found.of_tag(&tag);
        let style = tag.attribute("style").map(|attribute| attribute.value.clone());
        let sheet = tag.is("style").then(|| tag.text.clone());
        for place in style.into_iter().chain(sheet) {
            for part in css::parts(&blank[place.clone()]) {
                found.of_part(part.kind, place.start + part.at);
            }
        }
    }
    found.remarks()
}

/// The uses of each feature: the first place, what is written there, and the number of places.
#[derive(Default)]
struct Found(BTreeMap<&'static str, Use>);

struct Use {
    feature: &'static Feature,
    at: usize,
    written: String,
    places: usize,
}

impl Found {
    fn of_tag(&mut self, tag: &Tag<'_>) {
        let at = tag.place.start;
        self.add(at, |kind, name| kind == Kind::Element && tag.is(name));
        for attribute in &tag.attributes {
            self.add(at, |kind, name| kind == Kind::Attribute && attribute.name.eq_ignore_ascii_case(name));
        }
    }

    fn of_part(&mut self, written: css::Kind<'_>, at: usize) {
        self.add(at, |kind, wanted| match (written, kind) {
            (css::Kind::AtRule { name, .. }, Kind::AtRule) => name.eq_ignore_ascii_case(wanted),
            (css::Kind::AtRule { name, prelude }, Kind::Media) => {
                name.eq_ignore_ascii_case("media") && ends_of(prelude, wanted).any(|(_, after)| !is_word(after))
            }
            (css::Kind::Selector(selector), Kind::Pseudo) => {
                ends_of(selector, &format!(":{wanted}")).any(|(_, after)| !is_word(after))
            }
            (css::Kind::Declaration { property, .. }, Kind::Property) => property.eq_ignore_ascii_case(wanted),
            (css::Kind::Declaration { property, value }, Kind::Value) => {
                let value = value.split('!').next().unwrap_or_default().trim();
                wanted.split_once(':').is_some_and(|wanted| wanted == (property, value))
            }
            (css::Kind::Declaration { value, .. }, Kind::Function) => {
                ends_of(value, wanted).any(|(before, after)| !is_word(before) && after == Some('('))
            }
            (css::Kind::Declaration { value, .. }, Kind::Unit) => ends_of(value, wanted)
                .any(|(before, after)| before.is_some_and(|c| c.is_ascii_digit()) && !is_word(after)),
            _ => false,
        });
    }

    /// Counts the features with a name that `uses` accepts.
    fn add(&mut self, at: usize, uses: impl Fn(Kind, &str) -> bool) {
        for feature in &DATA.features {
            let Some(name) = feature.names.iter().find(|name| uses(feature.kind, name)) else { continue };
            match self.0.entry(&feature.slug) {
                Entry::Occupied(mut known) => known.get_mut().places += 1,
                Entry::Vacant(new) => {
                    new.insert(Use { feature, at, written: feature.kind.written(name), places: 1 });
                }
            }
        }
    }

    fn remarks(self) -> Vec<Remark> {
        let remark = |Use { feature, at, written, places }: Use| {
            let clients: Vec<_> = feature.unsupported.iter().filter_map(|at| DATA.clients.get(*at)).cloned().collect();
            let more = if places > 1 { format!(", used {places} times") } else { String::new() };
            let (clients, slug) = (clients.join(", "), &feature.slug);
            Remark {
                at,
                text: format!("{written} is not supported by {clients}{more} (caniemail.com/features/{slug})"),
            }
        };
        let mut remarks: Vec<_> = self.0.into_values().map(remark).collect();
        remarks.sort_by_key(|remark| remark.at);
        remarks
    }
}

impl Kind {
    /// A name as a template has it.
    fn written(self, name: &str) -> String {
        match self {
            Self::Property => format!("`{name}`"),
            Self::Value => format!("`{}`", name.replace(':', ": ")),
            Self::Function => format!("`{name}()`"),
            Self::Unit => format!("the unit `{name}`"),
            Self::Pseudo => format!("`:{name}`"),
            Self::AtRule => format!("`@{name}`"),
            Self::Media => format!("`@media ({name})`"),
            Self::Element => format!("<{name}>"),
            Self::Attribute => format!("the attribute `{name}`"),
        }
    }
}

/// The characters before and after each occurrence of a word.
fn ends_of<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = (Option<char>, Option<char>)> {
    text.match_indices(word).map(|(at, _)| (text[..at].chars().next_back(), text[at + word.len()..].chars().next()))
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        unsupported(source).into_iter().map(|Remark { at, text }| format!("{at}: {text}")).collect()
    }

    #[test]
    fn each_feature_that_a_client_lacks_is_named_once() {
        let remarks =
            found("<p style='display: flex; gap:1px'>{{ display }}</p><p style='gap: 2px'><video poster=x></video>");
        let starts = [
            "10: `display: flex` is not supported by Outlook (Windows)",
            "25: `gap` is not supported by Outlook (Windows), Yahoo! Mail, ",
            "71: <video> is not supported by Gmail, ",
        ];
        assert_eq!(remarks.len(), starts.len(), "{remarks:#?}");
        assert!(remarks.iter().zip(starts).all(|(remark, start)| remark.starts_with(start)), "{remarks:#?}");
        assert!(remarks[1].contains(", used 2 times (caniemail"), "{remarks:#?}");
        assert!(remarks[0].ends_with(" (caniemail.com/features/css-display-flex)"), "{remarks:#?}");
    }

    #[test]
    fn every_kind_of_feature_is_found_and_nothing_that_looks_like_one() {
        let style = |css: &str| found(&format!("<style>{css}</style>")).join("\n");
        for (css, expected) in [
            ("@supports (a: b) { }", "`@supports`"),
            ("@media (prefers-color-scheme: dark) { }", "`@media (prefers-color-scheme)`"),
            ("li::marker { color: red }", "`:marker`"),
            ("p { width: min(1px, 2px) }", "`min()`"),
            ("p { width: 50vw }", "the unit `vw`"),
            ("p { --x: 1px; color: var(--x) }", "`var()`"),
        ] {
            assert!(style(css).contains(&format!("{expected} is not supported by ")), "{css}: {}", style(css));
        }
        for css in [
            "p { color: red }",
            ".gap { padding: 1px }",
            "/* gap: 1px */",
            "p { color: #a1vw2f; content: \"gap: 1px\" }",
        ] {
            assert_eq!(style(css), "", "{css}");
        }
        assert!(found("<td abbr='video'>gap: 1px</td><!-- <video> -->").is_empty());
    }

    #[test]
    fn the_data_names_its_source_and_covers_large_clients() {
        let data: serde_json::Value = serde_json::from_str(include_str!("../../support/support.json")).unwrap();
        for name in ["source", "date", "licence"] {
            assert!(data[name].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        }
        for client in ["Gmail", "Outlook (Windows)", "Apple Mail (iOS)", "Yahoo! Mail"] {
            assert!(DATA.clients.iter().any(|known| known == client), "{client}");
        }
        assert!(DATA.features.len() > 150 && DATA.features.iter().all(|feature| !feature.unsupported.is_empty()));
    }
}
