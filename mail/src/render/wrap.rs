//! Breaks the lines of the text part. RFC 5322, 2.1.1, asks for at most 78 columns; quoting in an answer takes some of them.

use crate::bidi::ISOLATE;

/// Limit of a line in columns.
const COLUMNS: usize = 72;

/// Breaks longer lines at spaces, and indents what follows like the text before it. A longer word stays whole, because a cut link
/// leads somewhere else.
pub(super) fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        if line.len() <= COLUMNS { out.push_str(line) } else { wrap(line, &mut out) }
    }
    out
}

fn wrap(line: &str, out: &mut String) {
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let bullet = if ["* ", "- "].iter().any(|bullet| line[spaces..].starts_with(bullet)) { 2 } else { 0 };
    let (prefix, words) = line.split_at(spaces + bullet);
    out.push_str(prefix);
    let (mut column, mut open) = (prefix.len(), 0_usize);
    for (at, word) in words.split(' ').enumerate() {
        let width = word.chars().filter(|c| ![ISOLATE.0, ISOLATE.1, '\n'].contains(c)).count();
        // A value must not look like a line of its own.
        let may_begin = !["*", "-"].contains(&word);
        if at > 0 && may_begin && column + 1 + width > COLUMNS {
            // A line is a paragraph, and each one ends its isolates.
            out.extend(std::iter::repeat_n(ISOLATE.1, open));
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', prefix.len()));
            out.extend(std::iter::repeat_n(ISOLATE.0, open));
            column = prefix.len();
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
        open = (open + word.matches(ISOLATE.0).count()).saturating_sub(word.matches(ISOLATE.1).count());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_line_goes_on_below_its_own_text() {
        let title = "Make the connection owned in the locked database struct, so that it outlives";
        let (first, rest) = ("Make the connection owned in the locked database struct, so that it", "outlives");
        for (prefix, indent) in [("", ""), ("* ", "  "), ("  ", "  "), ("  - ", "    ")] {
            let expected = format!("{prefix}{first}\n{indent}{rest}\nnext\n");
            assert_eq!(wrapped(&format!("{prefix}{title}\nnext\n")), expected);
        }
    }

    #[test]
    fn a_link_stays_whole_and_a_star_begins_no_line() {
        let link = format!("  https://example.com/{}\n", "x".repeat(100));
        assert_eq!(wrapped(&link), link);
        let forged = format!("{} * Forged line", "x".repeat(71));
        assert!(!wrapped(&forged).lines().any(|line| line.starts_with("* ")));
    }

    #[test]
    fn an_isolate_ends_with_its_line_and_begins_again() {
        let (one, two) = ("א".repeat(40), "ב".repeat(40));
        assert_eq!(
            wrapped(&format!("* \u{2068}{one} {two}\u{2069}")),
            format!("* \u{2068}{one}\u{2069}\n  \u{2068}{two}\u{2069}")
        );
    }

    proptest! {
        #[test]
        fn breaking_lines_changes_white_space_only(text in "(( |  |\\* )?[a-z*-]{1,30}\n?){0,60}") {
            let wrapped = wrapped(&text);
            prop_assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
            let fits = |line: &str| line.chars().count() <= COLUMNS || line.trim_start_matches([' ', '*', '-']).split(' ').count() == 1;
            let stars = |line: &str| line.contains(" *") || line.contains(" -");
            prop_assert!(wrapped.lines().all(|line| fits(line) || stars(line)), "{wrapped}");
        }
    }
}
