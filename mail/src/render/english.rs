//! English plurals of nouns that the catalogue does not have.

/// Returns a written number and a noun that agrees.
pub(super) fn counted(noun: &str, n: i128, number: &str) -> String {
    let (stem, end) = if n == 1 { (noun, "") } else { plural(noun) };
    format!("{number} {stem}{end}")
}

/// Returns a written number and a name that is an adjective or a plural.
pub(super) fn tally(name: &str, n: i128, number: &str) -> String {
    let is_plural = name.ends_with('s') && !["ss", "us", "is"].iter().any(|end| name.ends_with(end));
    let name = if n == 1 && is_plural { &name[..name.len() - 1] } else { name };
    format!("{number} {name}")
}

/// Returns the stem of a noun and the ending of its plural.
fn plural(noun: &str) -> (&str, &'static str) {
    let before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    if let Some(stem) = before_y {
        (stem, "ies")
    } else if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) {
        (noun, "es")
    } else if noun.ends_with(|c: char| c.is_ascii_alphabetic()) {
        (noun, "s")
    } else {
        (noun, "")
    }
}
