//! Language tags (BCP 47) as people write them.

use unic_langid::LanguageIdentifier;

/// Reads a tag that names a language.
pub(super) fn parsed(tag: &str) -> Option<LanguageIdentifier> {
    tag.parse().ok().filter(|tag: &LanguageIdentifier| !tag.language.is_empty())
}

/// Reads the longest part of a tag that is a language, a script, a region and variants.
pub(super) fn understood(tag: &str) -> Option<LanguageIdentifier> {
    let tag = tag.trim().replace('_', "-");
    let mut range = tag.as_str();
    loop {
        if let Some(understood) = parsed(range) {
            return Some(understood);
        }
        range = range.rsplit_once('-')?.0;
    }
}

/// Returns the language and its script, which is the likely one if the tag has none.
pub(super) fn completed(tag: &LanguageIdentifier) -> (String, String) {
    let mut tag = tag.clone();
    tag.maximize();
    (tag.language.to_string(), tag.script.map(|script| script.to_string()).unwrap_or_default())
}
