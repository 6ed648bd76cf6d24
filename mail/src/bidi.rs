//! Bidirectional text (UAX #9).

/// First strong isolate (FSI) and its end (PDI). Text between them cannot reorder its surroundings.
pub(crate) const ISOLATE: (char, char) = ('\u{2068}', '\u{2069}');

pub(crate) fn isolate_text(text: &str) -> String {
    format!("{}{text}{}", ISOLATE.0, ISOLATE.1)
}

/// Returns the content if one isolate spans the whole text.
pub(crate) fn whole_isolate(text: &str) -> Option<&str> {
    let inner = text.strip_prefix(ISOLATE.0)?.strip_suffix(ISOLATE.1)?;
    let mut open = 0_u32;
    for c in inner.chars() {
        match c {
            c if c == ISOLATE.0 => open += 1,
            c if c == ISOLATE.1 => open = open.checked_sub(1)?,
            _ => {}
        }
    }
    Some(inner)
}

/// Returns `true` for embeddings, overrides and isolates. Ordinary text has no need for them; spoofing does.
pub(crate) const fn is_reordering(c: char) -> bool {
    overrides(c) || matches!(c, '\u{2066}'..='\u{2069}')
}

const fn overrides(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}')
}

pub(crate) fn without_overrides(text: &str) -> String {
    text.replace(overrides, "")
}

/// Includes the right-to-left mark.
pub(crate) const fn runs_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{200f}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_isolate_around_everything_is_told_from_two() {
        for (text, inner) in [
            ("\u{2068}a\u{2069}", Some("a")),
            ("\u{2068}a \u{2068}b\u{2069}\u{2069}", Some("a \u{2068}b\u{2069}")),
            ("\u{2068}a\u{2069} b \u{2068}c\u{2069}", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(whole_isolate(text), inner, "{text:?}");
        }
    }
}
