//! Finds the faults of a catalogue: what a language lacks, what nothing says, and variables that no message is given.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Sources;
use crate::words::{Catalogue, ENGLISH, Files, Words};

/// A fault of a file of words, or of a template that says a message.
pub(super) struct Fault {
    pub place: String,
    pub problem: String,
}

/// The beginnings of messages for the names of a team's own categories, entity types and counts. Such a message gets `count`.
const COUNTED: [&str; 2] = ["noun_", "count_"];
/// The beginnings of messages that name a team's own digest types and categories, or describe a type. Such a message gets nothing.
const CALLED: [&str; 3] = ["digest_", "description_", "category_"];

/// Finds the faults of all languages, of what tenants say instead, and of what the templates say.
pub(super) fn faults(words: &Words, sources: &Sources) -> Vec<Fault> {
    let said: Vec<_> = sources.templates().flat_map(|(file, text)| said(text).map(move |id| (file, id))).collect();
    let catalogues: Vec<_> = words.catalogues().collect();
    let Some(english) = catalogues.iter().find(|catalogue| catalogue.tag == ENGLISH) else {
        return Vec::new();
    };
    let reference = english.messages(Files::All);
    let nowhere = said.iter().filter(|(_, id)| !reference.contains_key(id)).map(|(file, id)| Fault {
        place: (*file).to_owned(),
        problem: format!("it says `{id}`, which is no message of words/{ENGLISH}.ftl"),
    });
    let shipped = english.messages(Files::Shipped);
    let used: BTreeSet<_> = said.iter().map(|(_, id)| *id).chain(shipped.keys().copied()).collect();
    let general = catalogues.iter().flat_map(|catalogue| {
        let all = catalogue.messages(Files::All);
        let lacking = lacking(catalogue, &all, &reference, &catalogues);
        let found = lacking.into_iter().chain(wrong_variables(&all, &reference));
        let found: Vec<_> = found.chain(unused(&catalogue.messages(Files::Own), &used)).collect();
        at(format!("words/{}.ftl", catalogue.tag), found)
    });
    let of_tenants = words.tenants().flat_map(|(tenant, own)| own.values().map(move |catalogue| (tenant, catalogue)));
    let of_tenants = of_tenants.flat_map(|(tenant, catalogue)| {
        let own = catalogue.messages(Files::All);
        // What a tenant's file does not say, everybody's file of the language says.
        let is_new = !catalogues.iter().any(|general| general.tag == catalogue.tag);
        let lacking = is_new.then(|| lacking(catalogue, &own, &reference, &catalogues)).flatten();
        let found = lacking.into_iter().chain(wrong_variables(&own, &reference)).chain(unused(&own, &used)).collect();
        at(format!("words/{tenant}/{}.ftl", catalogue.tag), found)
    });
    nowhere.chain(general).chain(of_tenants).collect()
}

/// Messages with their variables.
type Messages<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn at(place: String, problems: Vec<String>) -> impl Iterator<Item = Fault> {
    problems.into_iter().map(move |problem| Fault { place: place.clone(), problem })
}

/// The messages that a language does not say, unless it only refines another one of `others`.
fn lacking(
    catalogue: &Catalogue,
    all: &Messages<'_>,
    reference: &Messages<'_>,
    others: &[&Catalogue],
) -> Option<String> {
    let has_parent = others.iter().any(|other| {
        let (own, other) = (catalogue.tag.to_string(), other.tag.to_string());
        own.strip_prefix(&other).is_some_and(|rest| rest.starts_with('-'))
    });
    let lacking = reference.keys().filter(|id| !has_parent && !all.contains_key(*id) && !is_named(id));
    let lacking: Vec<_> = lacking.copied().collect();
    (!lacking.is_empty())
        .then(|| format!("it lacks {} messages, which are said in English: {}", lacking.len(), lacking.join(", ")))
}

fn wrong_variables<'a>(all: &'a Messages<'_>, reference: &'a Messages<'_>) -> impl Iterator<Item = String> + 'a {
    all.iter().filter_map(|(id, variables)| {
        let offered = match reference.get(id) {
            Some(offered) => offered.clone(),
            None if begins(id, &COUNTED) => ["count"].into(),
            None if begins(id, &CALLED) => BTreeSet::new(),
            None => variables.clone(),
        };
        let wrong: Vec<_> = variables.difference(&offered).map(|name| format!("${name}")).collect();
        let offered: Vec<_> = offered.iter().map(|name| format!("${name}")).collect();
        let offered = if offered.is_empty() { "no variable".to_owned() } else { offered.join(", ") };
        (!wrong.is_empty()).then(|| format!("`{id}` has {}, and is given {offered}", wrong.join(", ")))
    })
}

fn unused<'a>(own: &'a Messages<'_>, used: &'a BTreeSet<&str>) -> impl Iterator<Item = String> + 'a {
    own.keys().filter(|id| !used.contains(*id) && !is_named(id)).map(|id| format!("`{id}` is said nowhere"))
}

/// Reports if a message is about a name of the team's own.
fn is_named(id: &str) -> bool {
    begins(id, &COUNTED) || begins(id, &CALLED)
}

fn begins(id: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| id.starts_with(start))
}

/// The messages that a template says: `t(id="unsubscribe")`.
fn said(text: &str) -> impl Iterator<Item = &str> {
    let calls = text.match_indices("t(").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    });
    calls.filter_map(|(at, call)| {
        let value =
            text[at + call.len()..].trim_start().strip_prefix("id")?.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|c| ['"', '\'', '`'].contains(c))?;
        value[1..].split(quote).next()
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn found(folder: &Path) -> Vec<String> {
        let faults = faults(&Words::new(Some(folder)).unwrap(), &Sources::read(Some(folder)).unwrap());
        faults.into_iter().map(|Fault { place, problem }| format!("{place}: {problem}")).collect()
    }

    #[test]
    fn a_catalogue_is_checked_against_english_and_the_templates() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(found(folder.path()), [] as [&str; 0]);
        fs::create_dir(folder.path().join("words")).unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file(
            "words/de.ftl",
            "saev = Sichern\nnext = { $wann }\nnoun_review = { $count } von { $name }\nown = Eigenes\n\
             category_change = Änderungen\ndigest_news = { $count } Neues\n",
        );
        file("words/de-AT.ftl", "save = Sichern\n");
        file("words/he.ftl", "save = שמירה\n");
        file("layout.txt", "{{ t(id=\"own\") }}{{ t( id = 'nothing' ) }}<p id=\"no\">{{ print(id=\"x\") }}");
        let found = found(folder.path());
        assert_eq!(
            found[..2],
            [
                "layout.txt: it says `own`, which is no message of words/en.ftl",
                "layout.txt: it says `nothing`, which is no message of words/en.ftl",
            ]
        );
        assert_eq!(
            found[2..6],
            [
                "words/de.ftl: `digest_news` has $count, and is given no variable",
                "words/de.ftl: `next` has $wann, and is given $when",
                "words/de.ftl: `noun_review` has $name, and is given $count",
                "words/de.ftl: `saev` is said nowhere",
            ]
        );
        assert!(found[6].starts_with("words/he.ftl: it lacks ") && found[6].contains(" about, "), "{}", found[6]);
        assert_eq!(found.len(), 7, "{found:?}");
        file("words/en.ftl", "own = Own\nnothing = -\n");
        fs::create_dir(folder.path().join("words/acme")).unwrap();
        file("words/acme/de.ftl", "save = Merken\nnext = { $wann }\nsaev = Merken\nnoun_review = { $count }\n");
        file("words/acme/fi.ftl", "save = Tallenna\n");
        let found = self::found(folder.path());
        assert!(!found.iter().any(|fault| fault.starts_with("layout.txt")));
        let of_tenant: Vec<_> = found.iter().filter(|fault| fault.starts_with("words/acme/")).collect();
        assert_eq!(of_tenant[0], "words/acme/de.ftl: `next` has $wann, and is given $when");
        assert_eq!(of_tenant[1], "words/acme/de.ftl: `saev` is said nowhere");
        assert!(of_tenant[2].starts_with("words/acme/fi.ftl: it lacks "), "{}", of_tenant[2]);
        assert_eq!(of_tenant.len(), 3, "{of_tenant:?}");
    }
}
